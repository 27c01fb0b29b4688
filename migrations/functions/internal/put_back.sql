-- A leased row (locked by the caller) goes back to where it was before its claim, its attempt uncounted. It keeps its place.
-- A finish keeps its worker: sent twice it must be known again.
create or replace function internal.put_back(task queues.task_runs, run_after timestamptz, detail jsonb, keep_worker boolean)
    returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    put_back_status queues.task_status := case when task.attempt_count > 1 then 'RETRYING' else 'PENDING' end;
begin
    begin
        update queues.task_runs t
        set status = put_back_status, attempt_count = t.attempt_count - 1, run_after = put_back.run_after,
            give_backs = t.give_backs + coalesce((detail ->> 'give_backs')::integer, 0),
            leased_until = null, worker_id = case when keep_worker then t.worker_id end, claimed_at = null, started_at = null, updated_at = clock_timestamp()
        where t.id = task.id;
    exception when unique_violation then
        update queues.task_runs t
        set status = 'CANCELLED', completed_at = clock_timestamp(), failure_kind = 'superseded', leased_until = null,
            worker_id = case when keep_worker then t.worker_id end, updated_at = clock_timestamp()
        where t.id = task.id;
        perform internal.add_event('cancelled', task.id, task.claim_no, task.attempt_count, task.worker_id,
                                   coalesce(detail, '{}') || '{"reason": "superseded"}');
        return;
    end;
    if detail is not null then
        perform internal.add_event('given_back', task.id, task.claim_no, task.attempt_count, task.worker_id, detail);
    end if;
end $$;
