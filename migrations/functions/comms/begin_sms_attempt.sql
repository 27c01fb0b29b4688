-- Whether an attempt may begin, and the fact that it does; the answer says why not. Committed before the provider is called.
create or replace function comms.begin_sms_attempt(attempt comms.send_sms_task_scheduled, execution jsonb) returns text
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    if attempt.attempt_id is null then
        return 'the payload names no attempt of this send';
    elsif exists (select from comms.send_sms_task_started s where s.attempt_id = attempt.attempt_id) then
        return format('attempt %s was started before', attempt.attempt_id);
    elsif comms.has_send_sms_task_succeeded(attempt.send_sms_task_id)
       or exists (select from comms.send_sms_task_failed f where f.attempt_id = attempt.attempt_id)
       or exists (select from comms.send_sms_task_ended e where e.send_sms_task_id = attempt.send_sms_task_id) then
        return format('send %s is over, or attempt %s was given up', attempt.send_sms_task_id, attempt.attempt_id);
    end if;
    if exists (
        select from comms.send_sms_task_unknown u join comms.send_sms_task_started s using (attempt_id)
        where u.send_sms_task_id = attempt.send_sms_task_id and s.provider is distinct from execution ->> 'provider') then
        return format('nobody knows whether an attempt of send %s arrived, and only its own provider may be asked again',
                      attempt.send_sms_task_id);
    elsif attempt.purpose = 'send' and comms.key_may_be_forgotten(comms.first_start_of_send_sms_task(attempt.send_sms_task_id), clock_timestamp())
       and exists (select from comms.send_sms_task_unknown u where u.send_sms_task_id = attempt.send_sms_task_id) then
        return format('nobody knows whether an attempt of send %s arrived, and its key may be forgotten by now', attempt.send_sms_task_id);
    end if;
    insert into comms.send_sms_task_started (attempt_id, send_sms_task_id, provider, resolves_by)
    values (attempt.attempt_id, attempt.send_sms_task_id, left(execution ->> 'provider', 100),
            case when execution ->> 'resolves_by' in ('resend', 'lookup', 'park') then execution ->> 'resolves_by' end);
    return null;
end $$;
