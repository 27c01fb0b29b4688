-- Blanks what a message said and to whom, and the provider's words about it; the facts stay, and this becomes one. A send
-- that has not ended fails at its next attempt. Its retries are copies, and erased with it. Answers `erased`,
-- `erased_before` or `unknown`.
create or replace function comms.erase_message(message_id bigint, reason text) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    if reason is null or length(reason) not between 1 and 1000 then
        raise exception using errcode = 'RQ003', message = 'say why the message is erased (1 to 1000 characters)';
    end if;
    perform from comms.message m where m.message_id = erase_message.message_id and internal.may_touch(m.created_by) for update;
    if not found then
        return 'unknown';
    end if;
    insert into comms.message_erased (message_id, reason) values (message_id, reason) on conflict do nothing;
    if not found then
        return 'erased_before';
    end if;
    update comms.email_message m
    set to_address = 'erased@invalid', from_address = null, reply_to = null, subject = '', html = null, text_body = '', headers = '{}'
    where m.message_id = erase_message.message_id;
    update comms.sms_message m set to_number = '000', from_number = null, body = '-' where m.message_id = erase_message.message_id;
    delete from comms.send_email_task_note n using comms.send_email_task_scheduled a, comms.send_email_task r
    where n.attempt_id = a.attempt_id and a.send_email_task_id = r.send_email_task_id and r.message_id = erase_message.message_id;
    delete from comms.send_sms_task_note n using comms.send_sms_task_scheduled a, comms.send_sms_task r
    where n.attempt_id = a.attempt_id and a.send_sms_task_id = r.send_sms_task_id and r.message_id = erase_message.message_id;
    delete from queues.channel_call x
    using comms.send_email_task_scheduled a, comms.send_email_task r
    where x.task_id = a.task_run_id and a.send_email_task_id = r.send_email_task_id and r.message_id = erase_message.message_id
      and x.answer ? 'error';
    delete from queues.channel_call x
    using comms.send_sms_task_scheduled a, comms.send_sms_task r
    where x.task_id = a.task_run_id and a.send_sms_task_id = r.send_sms_task_id and r.message_id = erase_message.message_id
      and x.answer ? 'error';
    perform comms.erase_message(c.message_id, reason)
    from comms.send_email_task r join comms.send_email_task c on c.retry_of = r.send_email_task_id
    where r.message_id = erase_message.message_id;
    perform comms.erase_message(c.message_id, reason)
    from comms.send_sms_task r join comms.send_sms_task c on c.retry_of = r.send_sms_task_id
    where r.message_id = erase_message.message_id;
    return 'erased';
end $$;
