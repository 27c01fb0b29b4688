-- What was given up, the oldest first.
create or replace function queues.parked_deliveries(of_sink text default null, max_rows integer default 100)
    returns table (
        sink text, event_id uuid, event_type text, subject text, created_at timestamptz, parked_at timestamptz, attempts integer,
        last_status integer, last_error text)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select d.sink, e.event_id, e.event_type::text, e.subject::text, e.created_at, d.ended_at, d.attempts, d.last_status, d.last_error
    from queues.outbox_delivery d join queues.outbox_event e on e.id = d.event_id
    where d.state = 'parked' and (of_sink is null or d.sink = of_sink)
    order by d.sink, d.event_id limit max_rows;
end $$;
