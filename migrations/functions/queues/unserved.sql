-- Ready queues and types that no live worker serves, with the age of their oldest task. A built-in type is served only by
-- a worker that has named it: one without a provider leaves email alone.
create or replace function queues.unserved(worker_timeout interval default '90 seconds')
    returns table (queue_name text, task_type text, waiting interval)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
    return query
    select l.queue_name, l.task_type, max(now() - l.run_after)
    from internal.lanes_of(null, null, '{}') l
    where l.run_after <= now() and not exists (
        select from queues.workers w
        where w.last_heartbeat > clock_timestamp() - worker_timeout
          and (w.queues is null or l.queue_name = any (w.queues))
          and (w.prefixes is null or exists (select from unnest(w.prefixes) p where starts_with(l.task_type, p)))
          and (l.task_type = any (w.task_types)
               or w.takes_unknown and l.task_type not in ('db_function', 'email', 'sms')))
    group by l.queue_name, l.task_type;
end $$;
