-- The same work once more, as a task of its own beside the one that has ended: for comparing what becomes of it. No key, so
-- nothing stands in its way; its effects repeat. Answers its id, or null: no such task.
create or replace function queues.replay_as_new(id bigint) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    task queues.task_runs;
    copy_id bigint;
begin
    perform internal.durable_commit();
    select t.* into task from queues.task_runs t where t.id = replay_as_new.id for update;
    if task.id is null or task.deleted_at is not null or not internal.may_touch(task.created_by) then
        return null;
    end if;
    if task.supervised then
        raise exception using errcode = 'RQ004', message = format('task %s belongs to a supervised process', task.id),
            hint = 'Retry the process: reproq process retry.';
    end if;
    if task.completed_at is null or task.leased_until is not null then
        raise exception using errcode = 'RQ003', message = format('task %s hasn''t ended: there is nothing to compare with', task.id),
            hint = 'Wait for it: reproq tasks wait.';
    end if;
    copy_id := queues.enqueue_system(
        task.task_type, task.payload_json, queue_name => task.queue_name, priority => task.priority,
        max_attempts => internal.attempts_granted(task), timeout => task.timeout_s * interval '1 second', limit_key => task.limit_key);
    update queues.task_runs t
    set replay_of = task.id, dead_letter_of = task.dead_letter_of, created_by = task.created_by, updated_at = clock_timestamp()
    where t.id = copy_id;
    perform internal.add_event('replayed', task.id, task.claim_no, task.attempt_count, null,
                               jsonb_build_object('as', copy_id, 'by', internal.effective_caller()));
    return copy_id;
end $$;
