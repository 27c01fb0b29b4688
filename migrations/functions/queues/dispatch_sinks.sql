-- What a dispatcher has to know of the sinks that are enabled, and whether anything waits for them.
create or replace function queues.dispatch_sinks(names text[] default null)
    returns table (
        sink_name text, url text, mode text, signed boolean, allow_private boolean, timeout_s double precision, batch_size integer,
        resume_in_s double precision, waiting boolean)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
    return query
    select s.sink_name, s.url, s.mode, s.signed, s.allow_private, s.timeout_s::double precision, s.batch_size,
           greatest(0, extract(epoch from s.resume_at - clock_timestamp()))::double precision,
           exists (select from queues.outbox_delivery d where d.sink = s.sink_name and d.state = 'waiting')
    from queues.sinks s
    where s.enabled and (dispatch_sinks.names is null or s.sink_name = any (dispatch_sinks.names))
    order by s.sink_name;
end $$;
