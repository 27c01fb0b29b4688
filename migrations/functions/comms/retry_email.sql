-- Sends a message again whose process ended without success: a new process, message and key. Effects may repeat, so a
-- person decides it.
create or replace function comms.retry_email(send_email_task_id bigint, scheduled_at timestamptz default now()) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    root comms.send_email_task;
begin
    select r.* into root from comms.send_email_task r
    where r.send_email_task_id = retry_email.send_email_task_id for no key update;
    if root.send_email_task_id is null
       or not exists (select from comms.send_email_task_ended e where e.send_email_task_id = root.send_email_task_id)
       or comms.has_send_email_task_succeeded(root.send_email_task_id) then
        raise exception using errcode = 'RQ003',
            message = format('send %s is not one that ended without success', coalesce(send_email_task_id::text, '(null)')),
            hint = 'Look at it: reproq process show comms.send_email ID.';
    elsif exists (select from comms.send_email_task_resolved x
                  where x.send_email_task_id = root.send_email_task_id and x.resolution = 'sent') then
        raise exception using errcode = 'RQ003', message = format('send %s was resolved as sent', send_email_task_id);
    elsif exists (
        select from comms.send_email_task r left join comms.send_email_task_ended e using (send_email_task_id)
        where r.retry_of = root.send_email_task_id
          and (e.outcome is null or comms.has_send_email_task_succeeded(r.send_email_task_id))) then
        raise exception using errcode = 'RQ003', message = format('send %s is retried already', send_email_task_id),
            hint = 'reproq process list comms.send_email shows it.';
    elsif exists (select from comms.message_erased x where x.message_id = root.message_id) then
        raise exception using errcode = 'RQ003', message = format('the message of send %s was erased', send_email_task_id);
    end if;
    return comms.start_email(comms.copy_email_message(root.message_id), scheduled_at, null, root.max_attempts, root.queue_name,
                             root.on_unknown, root.send_email_task_id);
end $$;
