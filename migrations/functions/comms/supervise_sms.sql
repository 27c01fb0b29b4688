create or replace function comms.supervise_sms(root comms.send_sms_task, next_check timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    perform queues.supervise('comms.send_sms_supervisor', jsonb_build_object('send_sms_task_id', root.send_sms_task_id),
                             next_check, root.queue_name);
end $$;
