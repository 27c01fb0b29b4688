-- All tokens, newest first; neither they nor their hashes.
create or replace function queues.list_tokens()
    returns table (
        id bigint, name text, scopes text[], queues text[], prefixes text[], created_by text, created_at timestamptz,
        expires_at timestamptz, revoked_at timestamptz, last_used_at timestamptz)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select t.id, t.name, t.scopes, t.queues, t.prefixes, t.created_by, t.created_at, t.expires_at, t.revoked_at, t.last_used_at
    from queues.api_tokens t order by t.id desc;
end $$;
