-- The one retry policy: what becomes of a leased RUNNING row (locked by the caller) whose execution failed, whether its
-- worker said so or its lease ran out. `problem` is its envelope with kind and detail; `since` is the
-- moment from which the back-off counts.
create or replace function internal.end_failed(task queues.task_runs, problem jsonb, since timestamptz, keep_worker boolean)
    returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    invalid text := nullif(problem ->> 'validation_failure_message', '');
    error text := coalesce(nullif(problem ->> 'error', ''), invalid);
    kind text := coalesce(left(problem ->> 'kind', 60), case when invalid is null then 'raised' else 'validation' end);
    retries boolean := task.attempt_count < task.max_attempts and task.deleted_at is null
        and not coalesce((problem ->> 'final')::boolean, false)
        and kind not in ('validation', 'no_handler_registered');
    delay interval := coalesce(case when problem ->> 'retry_in_s' is not null then
                                   least((problem ->> 'retry_in_s')::double precision, 366 * 86400) end * interval '1 second',
                               internal.retry_delay(task.task_type, task.attempt_count));
    detail jsonb := coalesce(problem -> 'detail', '{}') || jsonb_build_object(
        'kind', kind, 'error', left(error, 500),
        'started', task.started_at is not null or (problem ->> 'ran_s') is not null);
begin
    begin
        update queues.task_runs t
        set status = case when retries then 'RETRYING' else 'FAILED' end::queues.task_status,
            run_after = case when retries then least(greatest(since + delay, now()), timestamptz '8999-12-31 00:00:00+00')
                             else t.run_after end,
            completed_at = case when retries then null else clock_timestamp() end,
            failure_kind = kind, error_json = problem -> 'error_detail', last_error = left(error, 2000),
            started_at = coalesce(t.started_at, clock_timestamp() - (problem ->> 'ran_s')::double precision * interval '1 second'),
            leased_until = null, worker_id = case when keep_worker then t.worker_id end, updated_at = clock_timestamp()
        where t.id = task.id;
    exception when unique_violation then
        -- Unique among the waiting rows, and a twin waits already: it does this work.
        update queues.task_runs t
        set status = 'CANCELLED', completed_at = clock_timestamp(), failure_kind = 'superseded',
            error_json = problem -> 'error_detail', last_error = left(error, 2000),
            leased_until = null, worker_id = case when keep_worker then t.worker_id end, updated_at = clock_timestamp()
        where t.id = task.id;
        perform internal.add_event('cancelled', task.id, task.claim_no, task.attempt_count, task.worker_id,
                                   detail || '{"reason": "superseded"}');
        return;
    end;
    perform internal.add_event(case when kind = 'lease_expired' then 'lease_expired' when retries then 'retried' else 'failed' end,
                               task.id, task.claim_no, task.attempt_count, task.worker_id,
                               detail || case when retries then jsonb_build_object('retry_in_s', round(extract(epoch from delay), 3))
                                              else '{"final": true}' end);
    if kind = 'lease_expired' and not retries then
        perform internal.add_event('failed', task.id, task.claim_no, task.attempt_count, task.worker_id, detail);
    end if;
    if not retries and (select f.routes from internal.flow f) then
        perform internal.route_dead_letter(task, kind, error);
    end if;
    if kind = 'validation' then
        insert into queues.error (task_id, claim_no, source, function_name, message, detail)
        values (task.id, task.claim_no, 'validation', task.payload_json ->> 'db_function', coalesce(error, kind), detail);
    end if;
    if not retries then
        perform internal.tell_failed(task, kind);
    end if;
end $$;
