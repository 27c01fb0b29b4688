-- Every sink, and how it stands, for operators. Counts look at what waits and is parked only.
create or replace function queues.list_sinks()
    returns table (
        sink_name text, url text, mode text, type_prefixes text[], signed boolean, allow_private boolean, max_attempts integer,
        max_age interval, timeout_s double precision, batch_size integer, backoff_base interval, backoff_cap interval,
        enabled boolean, disabled_at timestamptz, disabled_reason text, failures integer, resume_at timestamptz,
        waiting bigint, parked bigint, oldest_waiting timestamptz, last_error text)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select s.sink_name, s.url, s.mode, s.type_prefixes, s.signed, s.allow_private, s.max_attempts, s.max_age, s.timeout_s::double precision,
           s.batch_size, s.backoff_base, s.backoff_cap, s.enabled, s.disabled_at, s.disabled_reason, s.failures,
           case when s.resume_at > now() then s.resume_at end, w.waiting, p.parked,
           (select e.created_at from queues.outbox_event e where e.id = w.oldest),
           (select d.last_error from queues.outbox_delivery d
            where d.sink = s.sink_name and d.state in ('waiting', 'parked') and d.last_error is not null
            order by d.event_id desc limit 1)
    from queues.sinks s
    cross join lateral (select count(*) as waiting, min(d.event_id) as oldest from queues.outbox_delivery d
                        where d.sink = s.sink_name and d.state = 'waiting') w
    cross join lateral (select count(*) as parked from queues.outbox_delivery d
                        where d.sink = s.sink_name and d.state = 'parked') p
    order by s.sink_name;
end $$;
