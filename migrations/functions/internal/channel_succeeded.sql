-- The provider's answer is kept already (queues.channel_result): now the success handler, if there is one. The answer is
-- its outcome; the caller calls again if it failed.
create or replace function internal.channel_succeeded(
    worker_id text, id bigint, claim_no bigint, payload jsonb, provider jsonb, answer jsonb) returns jsonb
    language plpgsql volatile security invoker
    set search_path = pg_catalog, pg_temp as $$
declare
    outcome jsonb := '{"success": true}';
begin
    if payload ->> 'success_handler' is not null then
        outcome := internal.call_function(payload ->> 'success_handler', jsonb_build_object(
            'original_payload', internal.for_handlers(payload, worker_id, id, claim_no, provider), 'worker_payload', answer));
    end if;
    if outcome -> 'success' <> 'true' then
        perform queues.channel_error(id, claim_no, worker_id, payload ->> 'success_handler', outcome ->> 'error');
    end if;
    return outcome;
end $$;
