-- The success handler: {original_payload, worker_payload}. Only an attempt that was started and has no outcome can succeed;
-- the same success again, and that of a second attempt, are accepted and change nothing.
create or replace function comms.record_email_success(payload jsonb) returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    return comms.note_email_success(comms.find_email_attempt(payload -> 'original_payload'), payload);
end $$;
