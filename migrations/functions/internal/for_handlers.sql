-- The payload as handlers see it: whole, and with the execution that calls them.
create or replace function internal.for_handlers(payload jsonb, worker_id text, id bigint, claim_no bigint, provider jsonb) returns jsonb
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    return payload || jsonb_build_object('execution', coalesce(provider, '{}') || jsonb_build_object(
        'task_run_id', id, 'claim_no', claim_no, 'token', internal.execution_token(worker_id, id, claim_no)));
end $$;
