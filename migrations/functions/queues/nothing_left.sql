-- Whether of these queues and types nothing is leased, waits for a retry, or is due: a worker told to run until empty ends.
-- What is paused isn't waited for.
-- With `pools` only types that one of them serves count (see queues.claim).
create or replace function queues.nothing_left(queues text[], prefixes text[], pools jsonb default null) returns boolean
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
begin
    return not exists (
        select from queues.task_runs t
        where t.leased_until is not null and (queues is null or t.queue_name = any (queues))
          and (prefixes is null or exists (select from unnest(prefixes) p where starts_with(t.task_type, p)))
          and internal.pool_of(t.task_type, pools) > 0)
    and not exists (
        select from queues.task_runs t
        where t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
          and (t.status = 'RETRYING' or t.run_after <= now())
          and not exists (select from queues.queue_settings s where s.queue_name = t.queue_name and s.paused)
          and not exists (select from queues.task_types y where y.task_type = t.task_type and y.paused)
          and (queues is null or t.queue_name = any (queues))
          and (prefixes is null or exists (select from unnest(prefixes) p where starts_with(t.task_type, p)))
          and internal.pool_of(t.task_type, pools) > 0);
end $$;
