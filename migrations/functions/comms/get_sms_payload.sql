-- The before-handler: the fact that the attempt starts, and the message for the provider. The worker's own sender becomes
-- the message's at the first attempt. `lookup` asks the provider since that time whether it has this message, instead of
-- sending it.
create or replace function comms.get_sms_payload(payload jsonb) returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    attempt comms.send_sms_task_scheduled := comms.find_sms_attempt(payload);
    fault text := comms.begin_sms_attempt(attempt, payload -> 'execution');
    root comms.send_sms_task;
    message comms.sms_message;
    since timestamptz;
begin
    if fault is not null then
        return comms.refused(fault);
    end if;
    select r.* into root from comms.send_sms_task r where r.send_sms_task_id = attempt.send_sms_task_id;
    update comms.sms_message m set from_number = coalesce(m.from_number, left(payload #>> '{execution,sender}', 100))
    where m.message_id = root.message_id returning m.* into message;
    if exists (select from comms.message_erased x where x.message_id = root.message_id) then
        return comms.refused(format('message %s was erased', root.message_id));
    end if;
    if attempt.purpose = 'lookup' then
        since := comms.first_start_of_send_sms_task(root.send_sms_task_id);
    end if;
    return jsonb_build_object('success', true, 'payload', jsonb_strip_nulls(jsonb_build_object(
        'key', root.provider_key, 'to', message.to_number, 'from', message.from_number, 'body', message.body,
        'lookup', case when since is not null then jsonb_build_object('since', extract(epoch from since)) end)));
end $$;
