create or replace function comms.end_email_supervision(root comms.send_email_task) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    perform queues.unsupervise('comms.send_email_supervisor', jsonb_build_object('send_email_task_id', root.send_email_task_id),
                               root.queue_name);
end $$;
