-- Reopens the same row with its history: attempt numbers go on and max_attempts grows by `attempts` (else the type's number).
-- One that was cancelled while it waited for others waits for those of them that aren't over yet.
create or replace function queues.replay(id bigint, attempts integer default null) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    task queues.task_runs;
    more integer;
begin
    perform internal.durable_commit();
    select t.* into task from queues.task_runs t where t.id = replay.id for update;
    if task.id is null or task.deleted_at is not null or not internal.may_touch(task.created_by) then
        return 'unknown';
    end if;
    if task.supervised then
        raise exception using errcode = 'RQ004', message = format('task %s belongs to a supervised process', task.id),
            hint = 'Retry the process: reproq process retry.';
    end if;
    if task.status = 'SUCCESSFUL' then
        return 'succeeded';
    end if;
    if task.leased_until is not null or task.status not in ('FAILED', 'CANCELLED') then
        return 'not_ended';
    end if;
    more := coalesce(replay.attempts, (select y.max_attempts from queues.task_types y where y.task_type = task.task_type), 3);
    if more not between 1 and 100000 - task.attempt_count then
        raise exception using errcode = 'RQ003', message = format('%s more attempts are out of range', more),
            hint = 'A task has 1 to 100000 attempts in all.';
    end if;
    begin
        update queues.task_runs t
        set status = 'PENDING', max_attempts = t.attempt_count + more, give_backs = 0, run_after = now(),
            waiting_for = (select count(*) from queues.task_dependency d where d.child_id = t.id),
            completed_at = null, worker_id = null, claimed_at = null, started_at = null, updated_at = clock_timestamp()
        where t.id = replay.id;
    exception when unique_violation then
        raise exception using errcode = 'RQ006', message = format('another task of the same spec waits already; %s was not replayed', task.id),
            hint = 'Let that one run, or cancel it first.';
    end;
    perform internal.add_event('replayed', task.id, task.claim_no, task.attempt_count, task.worker_id,
                               jsonb_build_object('was', task.status, 'kind', task.failure_kind, 'by', internal.effective_caller()));
    perform internal.wake_sleepers(task.queue_name, task.task_type);
    return 'replayed';
end $$;
