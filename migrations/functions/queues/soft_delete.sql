-- Never claimed again, its key is free; the row stays until retention takes it. A running one may still finish; if it
-- fails or its lease expires it ends FAILED. Answers `deleted` or `unknown`.
create or replace function queues.soft_delete(id bigint, reason text default null) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    task queues.task_runs;
begin
    perform internal.durable_commit();
    if coalesce(soft_delete.reason, '') !~ '[^[:space:]]' then
        raise exception using errcode = 'RQ003', message = 'a deletion needs a reason',
            hint = 'It stays with the task: queues.soft_delete(7, ''entered twice'').';
    end if;
    select t.* into task from queues.task_runs t where t.id = soft_delete.id for update;
    if task.id is null or not internal.may_touch(task.created_by) then
        return 'unknown';
    end if;
    if task.deleted_at is null then
        update queues.task_runs t
        set deleted_at = clock_timestamp(), delete_reason = left(soft_delete.reason, 2000), updated_at = clock_timestamp()
        where t.id = soft_delete.id;
        perform internal.add_event('deleted', task.id, task.claim_no, task.attempt_count, task.worker_id,
                                   jsonb_build_object('reason', left(soft_delete.reason, 2000), 'by', internal.effective_caller()));
    end if;
    if exists (select from internal.parent_over) then
        perform internal.tell_children();
    end if;
    return 'deleted';
end $$;
