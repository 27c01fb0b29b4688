-- What comms.record_email_success does once it knows the attempt; the supervisor comes here with an answer that was kept.
create or replace function comms.note_email_success(attempt comms.send_email_task_scheduled, payload jsonb) returns jsonb
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    root comms.send_email_task;
begin
    if attempt.attempt_id is null then
        return comms.refused('the payload names no attempt of this send');
    elsif comms.has_send_email_task_succeeded(attempt.send_email_task_id) then
        return jsonb_build_object('success', true);
    elsif not exists (select from comms.send_email_task_started s where s.attempt_id = attempt.attempt_id)
       or exists (select from comms.send_email_task_failed f where f.attempt_id = attempt.attempt_id) then
        return comms.refused(format('attempt %s was not started, or has failed', attempt.attempt_id));
    end if;
    insert into comms.send_email_task_succeeded (attempt_id, send_email_task_id, provider, provider_message_id)
    values (attempt.attempt_id, attempt.send_email_task_id, left(payload #>> '{worker_payload,provider}', 100),
            left(payload #>> '{worker_payload,provider_message_id}', 998));
    select r.* into root from comms.send_email_task r where r.send_email_task_id = attempt.send_email_task_id;
    perform comms.wake_email_supervisor(root);
    return jsonb_build_object('success', true);
end $$;
