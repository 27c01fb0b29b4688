-- Ends the executions whose lease ran out, not before `since`, whoever held them; 500 at most, the oldest first. Part of every
-- worker's claim, so no leader is needed.
--   cancelled meanwhile            -> only the lease goes
--   last attempt, never started    -> back, uncounted: nothing of it ever ran
--   anything else                  -> a failure `lease_expired`, by the same policy as any failure
-- The back-off counts from the lease's end, not from when somebody looked.
create or replace function internal.reclaim(since timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    task queues.task_runs;
    reclaimed integer := 0;
begin
    for task in
        select t.* from queues.task_runs t where t.leased_until < now() and t.leased_until >= since
        order by t.leased_until limit 500 for update skip locked
    loop
        reclaimed := reclaimed + 1;
        if task.status = 'CANCELLED' then
            update queues.task_runs t set leased_until = null, worker_id = null, updated_at = clock_timestamp()
            where t.id = task.id;
            perform internal.add_event('lease_expired', task.id, task.claim_no, task.attempt_count, task.worker_id,
                                       '{"status": "CANCELLED"}');
        elsif task.attempt_count = task.max_attempts and task.started_at is null and task.deleted_at is null then
            perform internal.put_back(task, task.run_after, '{"reason": "lease expired before it began"}', false);
        else
            perform internal.end_failed(
                task, jsonb_build_object('kind', 'lease_expired', 'error', format(
                    'the lease of attempt %s of %s ran out: its worker died, froze or lost the database',
                    task.attempt_count, task.max_attempts)),
                task.leased_until, false);
        end if;
    end loop;
    return reclaimed;
end $$;
