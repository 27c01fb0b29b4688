-- Starts the process for a message, in the caller's transaction; again, it answers the first id and changes nothing.
create or replace function comms.kickoff_send_email_task(message_id bigint, scheduled_at timestamptz default now()) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    if not exists (
        select from comms.message m
        where m.message_id = kickoff_send_email_task.message_id and m.channel = 'email' and internal.may_touch(m.created_by)) then
        raise exception using errcode = 'RQ003', message = format('no email message %s of yours', coalesce(message_id::text, '(null)')),
            hint = 'Create one with comms.create_email_message, or do both with comms.send_email.';
    end if;
    return comms.start_email(message_id, scheduled_at, null, 6, null, null, null);
end $$;
