-- What waits for each sink and since when, and what was given up; of 5,000 deliveries of a kind at most.
create or replace function internal.measure_outbox() returns table (name text, labels jsonb, value double precision)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    most constant integer := 5000;
begin
    return query
    select m.name, jsonb_build_object('sink', s.sink_name) || m.more, m.value
    from queues.sinks s
    cross join lateral (
        select count(*) as waiting, min(e.created_at) as oldest
        from (select d.event_id from queues.outbox_delivery d where d.sink = s.sink_name and d.state = 'waiting' limit most) w
        join queues.outbox_event e on e.id = w.event_id) w
    cross join lateral (
        select count(*) as parked
        from (select from queues.outbox_delivery d where d.sink = s.sink_name and d.state = 'parked' limit most) p) p
    cross join lateral (values
        ('reproq_outbox_deliveries', '{"state": "waiting"}'::jsonb, w.waiting::double precision),
        ('reproq_outbox_deliveries', '{"state": "parked"}'::jsonb, p.parked::double precision),
        ('reproq_outbox_oldest_seconds', '{}'::jsonb,
         coalesce(extract(epoch from clock_timestamp() - w.oldest), 0)::double precision)) m(name, more, value);
end $$;
