-- The error handler: {original_payload, error}, where error is {kind, message, permanent, retry_after_s} or a text. The
-- kind `unknown` is no outcome: the answer was lost, and the supervisor resolves it. A failure that was recorded already,
-- and that of an attempt which never started, are accepted and change nothing: the supervisor sees to the latter.
create or replace function comms.record_email_failure(payload jsonb) returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    return comms.note_email_failure(comms.find_email_attempt(payload -> 'original_payload'), payload);
end $$;
