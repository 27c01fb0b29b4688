create or replace function comms.first_start_of_send_sms_task(send_sms_task_id bigint) returns timestamptz
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select min(s.created_at)
        from comms.send_sms_task_scheduled a join comms.send_sms_task_started s using (attempt_id)
        where a.send_sms_task_id = first_start_of_send_sms_task.send_sms_task_id);
end $$;
