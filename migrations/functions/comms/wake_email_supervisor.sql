-- Something has happened: the supervisor looks now instead of at its next check. An ended process stays ended.
create or replace function comms.wake_email_supervisor(root comms.send_email_task) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (select from comms.send_email_task_ended e where e.send_email_task_id = root.send_email_task_id) then
        perform comms.supervise_email(root, now());
    end if;
end $$;
