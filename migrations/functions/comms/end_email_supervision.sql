create or replace function comms.end_email_supervision(root comms.send_email_task) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    perform internal.close_process('comms.send_email_supervisor', jsonb_build_object('send_email_task_id', root.send_email_task_id),
                                   root.queue_name, comms.outcome_of_send_email_task(root.send_email_task_id));
end $$;
