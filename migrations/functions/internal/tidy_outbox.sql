-- A batch of what the outbox needn't keep: events that every sink has got or given up, after their time. What waits for a
-- sink that was disabled for longer than its max_age is parked; what waits for one that is gone, goes.
create or replace function internal.tidy_outbox() returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off as $$
declare
    gone bigint;
    name text := '';
    late bigint[];
begin
    loop
        select min(d.sink) into name from queues.outbox_delivery d where d.state = 'waiting' and d.sink > name;
        exit when name is null;
        if not exists (select from queues.sinks s where s.sink_name = name) then
            perform internal.drop_deliveries(name);
        end if;
        select array_agg(x.event_id) into late
        from (select d.event_id from queues.outbox_delivery d join queues.sinks s on s.sink_name = d.sink
              join queues.outbox_event e on e.id = d.event_id
              where d.sink = name and d.state = 'waiting' and s.disabled_at < now() - s.max_age and e.created_at < now() - s.max_age
              order by d.event_id limit 5000 for update of d skip locked) x;
        update queues.outbox_delivery d
        set state = 'parked', ended_at = now(), leased_until = null, last_error = coalesce(d.last_error, 'its sink is disabled')
        where d.sink = name and d.event_id = any (late);
        perform internal.sink_is_done(late);
    end loop;
    delete from queues.outbox_event e
    where e.id in (
        select x.id from queues.outbox_event x cross join queues.outbox_settings o
        where x.published_at < now() - o.keep_published
          and (o.keep_parked is not null and x.published_at < now() - o.keep_parked
               or not exists (select from queues.outbox_delivery d where d.event_id = x.id and d.state = 'parked'))
        order by x.published_at limit 5000 for update of x skip locked);
    get diagnostics gone = row_count;
    return gone;
end $$;
