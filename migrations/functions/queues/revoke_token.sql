-- Answers revoked or unknown. Every gateway knows within five seconds.
create or replace function queues.revoke_token(name text) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    update queues.api_tokens t set revoked_at = now() where t.name = revoke_token.name and t.revoked_at is null;
    return case when found then 'revoked' else 'unknown' end;
end $$;
