create or replace function comms.first_start_of_send_email_task(send_email_task_id bigint) returns timestamptz
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select min(s.created_at)
        from comms.send_email_task_scheduled a join comms.send_email_task_started s using (attempt_id)
        where a.send_email_task_id = first_start_of_send_email_task.send_email_task_id);
end $$;
