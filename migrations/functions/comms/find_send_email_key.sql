create or replace function comms.find_send_email_key(idempotency_key text) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select r.send_email_task_id from comms.send_email_task r
        where r.created_by = session_user and r.idempotency_key = find_send_email_key.idempotency_key);
end $$;
