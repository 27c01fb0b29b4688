-- How a send ended, null while it hasn't: for processes that wait for it.
create or replace function comms.outcome_of_send_email_task(send_email_task_id bigint) returns text
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    return (
        select e.outcome from comms.send_email_task_ended e
        where e.send_email_task_id = outcome_of_send_email_task.send_email_task_id);
end $$;
