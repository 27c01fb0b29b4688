-- The before-handler: the fact that the attempt starts, and the message for the provider, under the send's own key. The
-- worker's own sender becomes the message's at the first attempt: another body under the same key would be refused.
create or replace function comms.get_email_payload(payload jsonb) returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    attempt comms.send_email_task_scheduled := comms.find_email_attempt(payload);
    fault text := comms.begin_email_attempt(attempt, payload -> 'execution');
    root comms.send_email_task;
    message comms.email_message;
begin
    if fault is not null then
        return comms.refused(fault);
    end if;
    select r.* into root from comms.send_email_task r where r.send_email_task_id = attempt.send_email_task_id;
    update comms.email_message m set from_address = coalesce(m.from_address, left(payload #>> '{execution,sender}', 2000))
    where m.message_id = root.message_id returning m.* into message;
    if exists (select from comms.message_erased x where x.message_id = root.message_id) then
        return comms.refused(format('message %s was erased', root.message_id));
    end if;
    return jsonb_build_object('success', true, 'payload', jsonb_strip_nulls(jsonb_build_object(
        'key', root.provider_key, 'to', message.to_address, 'from', message.from_address, 'reply_to', message.reply_to,
        'subject', message.subject, 'html', message.html, 'text', message.text_body, 'headers', message.headers)));
end $$;
