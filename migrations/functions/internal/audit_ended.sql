-- `started` and `succeeded` of the executions that a finish is about to end, for the queues that ask. It locks the rows as
-- the finish will, in the same order, so what it tells is what becomes of them; how a failed one ended is told by
-- internal.end_failed.
create or replace function internal.audit_ended(worker_id text, outcomes jsonb) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    held record;
begin
    for held in
        select t.id, t.claim_no, t.attempt_count, o.success, o.ran_s, o.detail,
               coalesce(t.started_at, clock_timestamp() - o.ran_s * interval '1 second') as started_at
        from jsonb_to_recordset(outcomes) as o(
            id bigint, claim_no bigint, success boolean, ran_s double precision, detail jsonb)
        join queues.task_runs t on t.id = o.id and t.claim_no = o.claim_no and t.worker_id = audit_ended.worker_id
        where t.leased_until is not null and t.status = 'RUNNING' and internal.audited(t.queue_name)
        order by t.id for update of t
    loop
        perform internal.audit_started(worker_id, held.id, held.claim_no, held.attempt_count, held.started_at);
        if held.success then
            perform internal.add_event('succeeded', held.id, held.claim_no, held.attempt_count, worker_id,
                                       coalesce(held.detail, '{}') || jsonb_build_object('duration_s', held.ran_s));
        end if;
    end loop;
end $$;
