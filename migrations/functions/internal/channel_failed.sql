-- A channel task failed: the error goes on record, is kept as the provider's answer unless that is unknown, and the error
-- handler hears of it. In one transaction; a handler that fails takes back only its own writes.
create or replace function internal.channel_failed(
    worker_id text, id bigint, claim_no bigint, payload jsonb, provider jsonb, error jsonb, summary text) returns jsonb
    language plpgsql volatile security invoker
    set search_path = pg_catalog, pg_temp as $$
declare
    outcome jsonb := '{"success": true}';
begin
    perform queues.channel_error(id, claim_no, worker_id, null, summary);
    if error ->> 'kind' <> 'unknown' then
        perform queues.channel_result(id, claim_no, jsonb_build_object('error', error), worker_id);
    end if;
    if payload ->> 'error_handler' is not null then
        outcome := internal.call_function(payload ->> 'error_handler', jsonb_build_object(
            'original_payload', internal.for_handlers(payload, worker_id, id, claim_no, provider), 'error', error));
    end if;
    if outcome -> 'success' <> 'true' then
        perform queues.channel_error(id, claim_no, worker_id, payload ->> 'error_handler', outcome ->> 'error');
    end if;
    return outcome;
end $$;
