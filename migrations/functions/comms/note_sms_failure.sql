-- What comms.record_sms_failure does once it knows the attempt; the supervisor comes here with an answer that was kept.
create or replace function comms.note_sms_failure(attempt comms.send_sms_task_scheduled, payload jsonb) returns jsonb
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    error jsonb := payload -> 'error';
    kind text := case when error ->> 'kind' ~ '^[a-z_]{1,60}$' then error ->> 'kind' else 'provider_refused' end;
    root comms.send_sms_task;
begin
    if attempt.attempt_id is null then
        return comms.refused('the payload names no attempt of this send');
    elsif exists (select from comms.send_sms_task_succeeded s where s.attempt_id = attempt.attempt_id) then
        return comms.refused(format('attempt %s has succeeded', attempt.attempt_id));
    elsif not exists (select from comms.send_sms_task_started s where s.attempt_id = attempt.attempt_id)
       or exists (select from comms.send_sms_task_failed f where f.attempt_id = attempt.attempt_id) then
        return jsonb_build_object('success', true);
    end if;
    if kind = 'unknown' then
        insert into comms.send_sms_task_unknown (attempt_id, send_sms_task_id)
        values (attempt.attempt_id, attempt.send_sms_task_id) on conflict do nothing;
    else
        insert into comms.send_sms_task_failed (attempt_id, send_sms_task_id, kind, permanent, retry_after)
        values (attempt.attempt_id, attempt.send_sms_task_id, kind, coalesce(error -> 'permanent' = 'true', false),
                case when jsonb_typeof(error -> 'retry_after_s') = 'number' then
                    greatest(0, least((error ->> 'retry_after_s')::numeric, 86400))::double precision * interval '1 second' end);
    end if;
    insert into comms.send_sms_task_note (attempt_id, note)
    values (attempt.attempt_id, left(coalesce(error ->> 'message', error #>> '{}', kind), 2000)) on conflict do nothing;
    select r.* into root from comms.send_sms_task r where r.send_sms_task_id = attempt.send_sms_task_id;
    perform comms.wake_sms_supervisor(root);
    return jsonb_build_object('success', true);
end $$;
