-- The HTTP gateway's API tokens. Only a hash: who reads this table, or a backup of it, can't call anything.
create table queues.api_tokens (
    id           bigint generated always as identity primary key,
    name         text not null constraint token_has_a_name check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.:@-]*$' and length(name) <= 100),
    hash         bytea not null unique constraint hash_is_a_sha256 check (octet_length(hash) = 32),
    scopes       text[] not null constraint scopes_are_words check (
        array_to_string(scopes, ' ', '?') ~ '^[a-z]+:[a-z]+( [a-z]+:[a-z]+)*$'),
    queues       text[] constraint queues_name_one check (cardinality(queues) > 0),      -- null = every queue
    prefixes     text[] constraint prefixes_name_one check (cardinality(prefixes) > 0),  -- null = every type
    created_by   text not null default session_user,
    created_at   timestamptz not null default now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
create unique index api_tokens_name on queues.api_tokens (name) where revoked_at is null;
