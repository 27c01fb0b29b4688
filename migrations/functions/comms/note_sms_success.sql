-- What comms.record_sms_success does once it knows the attempt; the supervisor comes here with an answer that was kept.
create or replace function comms.note_sms_success(attempt comms.send_sms_task_scheduled, payload jsonb) returns jsonb
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    root comms.send_sms_task;
begin
    if attempt.attempt_id is null then
        return comms.refused('the payload names no attempt of this send');
    elsif comms.has_send_sms_task_succeeded(attempt.send_sms_task_id) then
        return jsonb_build_object('success', true);
    elsif not exists (select from comms.send_sms_task_started s where s.attempt_id = attempt.attempt_id)
       or exists (select from comms.send_sms_task_failed f where f.attempt_id = attempt.attempt_id) then
        return comms.refused(format('attempt %s was not started, or has failed', attempt.attempt_id));
    end if;
    insert into comms.send_sms_task_succeeded (attempt_id, send_sms_task_id, provider, provider_message_id)
    values (attempt.attempt_id, attempt.send_sms_task_id, left(payload #>> '{worker_payload,provider}', 100),
            left(payload #>> '{worker_payload,provider_message_id}', 998));
    select r.* into root from comms.send_sms_task r where r.send_sms_task_id = attempt.send_sms_task_id;
    perform comms.wake_sms_supervisor(root);
    return jsonb_build_object('success', true);
end $$;
