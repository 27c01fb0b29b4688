-- `started` and `succeeded` of the executions that a finish is about to end, for the queues that ask. It locks the rows as
-- the finish will, in the same order and found in the same way, so what it tells is what becomes of them; how a failed one
-- ended is told by internal.end_failed.
create or replace function internal.audit_ended(worker_id text, outcomes jsonb) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off set enable_nestloop = off set enable_mergejoin = off as $$
#variable_conflict use_variable
declare
    held record;
begin
    for held in
        with outcome as materialized (
            select o.* from jsonb_to_recordset(outcomes) as o(
                id bigint, claim_no bigint, success boolean, ran_s double precision, detail jsonb)
        ), locked as materialized (
            select t.id, t.claim_no, t.attempt_count, t.started_at, t.queue_name,
                   t.leased_until is not null and t.status = 'RUNNING' as runs
            from queues.task_runs t
            where t.id = any (array(select o.id from outcome o)) and t.worker_id = audit_ended.worker_id
            order by t.id for update
        )
        select l.id, l.claim_no, l.attempt_count, o.success, o.ran_s, o.detail,
               coalesce(l.started_at, clock_timestamp() - o.ran_s * interval '1 second') as started_at
        from locked l join outcome o on o.id = l.id and o.claim_no = l.claim_no
        where l.runs and internal.audited(l.queue_name)
        order by l.id
    loop
        perform internal.audit_started(worker_id, held.id, held.claim_no, held.attempt_count, held.started_at);
        if held.success then
            perform internal.add_event('succeeded', held.id, held.claim_no, held.attempt_count, worker_id,
                                       coalesce(held.detail, '{}') || jsonb_build_object('duration_s', held.ran_s));
        end if;
    end loop;
end $$;
