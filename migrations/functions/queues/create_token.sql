-- Notes a token by its SHA-256; whoever made it keeps the token itself. For the owner and administrators.
create or replace function queues.create_token(
    name text, hash bytea, scopes text[], queues text[] default null, prefixes text[] default null,
    expires_in interval default null) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    made bigint;
begin
    if expires_in <= interval '0' then
        raise exception using errcode = 'RQ003', message = 'a token can''t expire before it is made';
    end if;
    insert into queues.api_tokens as t (name, hash, scopes, queues, prefixes, expires_at)
    values (name, hash, scopes, queues, prefixes, now() + expires_in)
    on conflict do nothing returning t.id into made;
    if made is null then
        raise exception using errcode = 'RQ003', message = format('there is a token named %s already', name),
            hint = 'Revoke it first, or take another name.';
    end if;
    return made;
end $$;
