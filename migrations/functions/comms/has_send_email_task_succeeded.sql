create or replace function comms.has_send_email_task_succeeded(send_email_task_id bigint) returns boolean
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    return exists (
        select from comms.send_email_task_succeeded s
        where s.send_email_task_id = has_send_email_task_succeeded.send_email_task_id);
end $$;
