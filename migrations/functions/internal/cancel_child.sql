create or replace function internal.cancel_child(child_id bigint, parent_id bigint) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    reason text := format('task %s, for which it waited, ended %s', parent_id, coalesce(
        (select case when t.deleted_at is not null then 'deleted' else t.status::text end from queues.task_runs t
         where t.id = parent_id), 'deleted'));
    child queues.task_runs;
begin
    update queues.task_runs t
    set status = 'CANCELLED', completed_at = clock_timestamp(), waiting_for = 0, failure_kind = 'parent_failed',
        last_error = reason, updated_at = clock_timestamp()
    where t.id = child_id returning t.* into child;
    perform internal.add_event('cancelled', child.id, child.claim_no, child.attempt_count, null,
                               jsonb_build_object('reason', reason, 'parent', parent_id));
end $$;
