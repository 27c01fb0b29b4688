-- What proves to handlers that they are called for this execution: known to its worker, and of no use for its fence.
create or replace function internal.execution_token(worker_id text, id bigint, claim_no bigint) returns text
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    return encode(sha256(convert_to(format('%s %s %s', worker_id, id, claim_no), 'UTF8')), 'hex');
end $$;
