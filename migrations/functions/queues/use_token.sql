-- What the bearer of a token may do, by the token's SHA-256; no row: it is unknown, expired or revoked.
create or replace function queues.use_token(hash bytea)
    returns table (id bigint, name text, scopes text[], queues text[], prefixes text[], expires_at timestamptz)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select t.id, t.name, t.scopes, t.queues, t.prefixes, t.expires_at from queues.api_tokens t
    where t.hash = use_token.hash and t.revoked_at is null and (t.expires_at is null or t.expires_at > now());
    -- Once a minute: a table of tokens must not become the busiest of all.
    update queues.api_tokens t set last_used_at = now()
    where t.hash = use_token.hash and t.revoked_at is null
      and (t.last_used_at is null or t.last_used_at < now() - interval '1 minute');
end $$;
