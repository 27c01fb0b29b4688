-- The canceller decides the status; whoever runs the task only lets go of the lease once it has stopped.
-- `cancelled` nothing runs any more · `stopping` a lease is still held · `too_late` it had ended · `unknown`
create or replace function queues.cancel(id bigint, reason text default null) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    task queues.task_runs;
begin
    perform internal.durable_commit();
    select t.* into task from queues.task_runs t where t.id = cancel.id for update;
    if task.id is null or task.deleted_at is not null or not internal.may_touch(task.created_by) then
        return 'unknown';
    end if;
    if task.status in ('SUCCESSFUL', 'FAILED') then
        return 'too_late';
    end if;
    if task.status <> 'CANCELLED' then
        update queues.task_runs t
        set status = 'CANCELLED', completed_at = clock_timestamp(), waiting_for = 0,
            last_error = left(cancel.reason, 2000), updated_at = clock_timestamp()
        where t.id = cancel.id;
        perform internal.add_event('cancelled', task.id, task.claim_no, task.attempt_count, task.worker_id,
                                   jsonb_build_object('reason', left(cancel.reason, 2000), 'by', internal.effective_caller()));
    end if;
    if exists (select from internal.parent_over) then
        perform internal.tell_children();
    end if;
    if task.leased_until is null then
        return 'cancelled';
    end if;
    -- The name alone: everybody may listen, and the last part of a worker's id is its fence.
    perform pg_notify('reproq', 'cancel ' || regexp_replace(task.worker_id, '/[^/]*$', ''));
    return 'stopping';
end $$;
