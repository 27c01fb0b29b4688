-- A worker that found nothing says that it sleeps until `expiry` from now: enqueues of its queues and types notify it.
-- Answers how long until the next task that is scheduled for it falls due, null = none is.
create or replace function queues.lie_down(worker_id text, queues text[], prefixes text[], expiry interval) returns interval
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
    next_due timestamptz := (
        select min(l.run_after) from internal.lanes_of(queues, prefixes, '{}') l where l.run_after > now());
begin
    insert into queues.sleeper as s (worker_id, queues, prefixes, until)
    values (worker_id, queues, prefixes, clock_timestamp() + least(expiry, interval '1 minute'))
    on conflict on constraint sleeper_pkey do update set until = excluded.until, queues = excluded.queues, prefixes = excluded.prefixes;
    return next_due - clock_timestamp();
end $$;
