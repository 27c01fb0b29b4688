create or replace function comms.count_send_sms_task_scheduled(send_sms_task_id bigint) returns integer
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    return (
        select count(*) from comms.send_sms_task_scheduled s
        where s.send_sms_task_id = count_send_sms_task_scheduled.send_sms_task_id);
end $$;
