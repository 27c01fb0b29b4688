-- Tells a task of the dead-letter type (the failed one's type says which, else its queue) that this execution was the last
-- one. Once for each final failure, in its transaction. Nothing that goes wrong here may keep the failure from being
-- recorded: then queues.error has it.
create or replace function internal.route_dead_letter(task queues.task_runs, kind text, error text) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    target text := coalesce(
        (select y.dead_letter_type from queues.task_types y where y.task_type = task.task_type),
        (select s.dead_letter_type from queues.queue_settings s where s.queue_name = task.queue_name));
    letter jsonb;
    letter_id bigint;
begin
    if target is null or target in (task.task_type, 'db_function', 'email', 'sms')
       or task.dead_letter_of is not null or task.supervised or task.deleted_at is not null then
        return;
    end if;
    begin
        letter := jsonb_build_object(
            'task_id', task.id, 'task_type', task.task_type, 'queue_name', task.queue_name, 'failure_kind', kind,
            'last_error', left(error, 2000), 'attempts', task.attempt_count, 'payload', task.payload_json);
        if (select internal.payload_fault(letter, s.max_payload_bytes, s.max_depth, s.max_digits) from queues.settings s) is not null then
            letter := letter || '{"payload": null, "payload_left_out": true}';
        end if;
        letter_id := queues.enqueue_system(target, letter, queue_name => task.queue_name, priority => task.priority,
                                           idempotency_key => format('dead-letter-%s-%s', task.id, task.claim_no));
        update queues.task_runs t
        set dead_letter_of = task.id, created_by = task.created_by, updated_at = clock_timestamp() where t.id = letter_id;
        perform internal.add_event('routed', task.id, task.claim_no, task.attempt_count, null,
                                   jsonb_build_object('type', target, 'task', letter_id));
    exception when others then
        insert into queues.error (task_id, claim_no, source, message, detail)
        values (task.id, task.claim_no, 'dead_letter', left(sqlerrm, 2000), jsonb_build_object('type', target, 'sqlstate', sqlstate));
    end;
end $$;
