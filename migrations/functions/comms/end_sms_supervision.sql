create or replace function comms.end_sms_supervision(root comms.send_sms_task) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    perform internal.close_process('comms.send_sms_supervisor', jsonb_build_object('send_sms_task_id', root.send_sms_task_id),
                                   root.queue_name, comms.outcome_of_send_sms_task(root.send_sms_task_id));
end $$;
