-- One more attempt: its task and the fact of it. The attempt's id is drawn first, because the task's payload names it.
create or replace function comms.schedule_sms_attempt(root comms.send_sms_task, purpose text) returns text
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    attempt_id bigint := nextval('comms.send_sms_task_scheduled_attempt_id_seq');
    attempt_no integer := comms.count_send_sms_task_scheduled(root.send_sms_task_id) + 1;
    task_run_id bigint;
begin
    task_run_id := queues.enqueue_system(
        'sms',
        jsonb_build_object(
            'task_type', 'sms', 'send_sms_task_id', root.send_sms_task_id, 'attempt_id', attempt_id,
            'before_handler', 'comms.get_sms_payload', 'success_handler', 'comms.record_sms_success',
            'error_handler', 'comms.record_sms_failure'),
        now(), root.queue_name, supervised => true, max_attempts => 1, timeout => interval '2 minutes');
    insert into comms.send_sms_task_scheduled (attempt_id, send_sms_task_id, attempt_no, purpose, task_run_id)
    values (attempt_id, root.send_sms_task_id, attempt_no, purpose, task_run_id);
    return purpose || ': attempt ' || attempt_no;
end $$;
