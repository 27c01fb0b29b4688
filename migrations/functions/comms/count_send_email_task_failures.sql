create or replace function comms.count_send_email_task_failures(send_email_task_id bigint) returns integer
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    return (
        select count(*) from comms.send_email_task_failed f
        where f.send_email_task_id = count_send_email_task_failures.send_email_task_id);
end $$;
