-- One task, in the caller's transaction. Answers its id; with a key or a uniqueness that exists, the first one's id.
create or replace function queues.enqueue(
    task_type text, payload jsonb default '{}', scheduled_at timestamptz default now(), queue_name text default 'default',
    priority integer default 0, idempotency_key text default null, max_attempts integer default null,
    unique_among text default null, timeout interval default null, after bigint[] default null,
    limit_key text default null, trace text default null,
    after_policy text default 'succeeded') returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    return (internal.enqueue_row(task_type, payload, scheduled_at, queue_name, priority, idempotency_key, max_attempts,
                                 unique_among, timeout, after, limit_key, false, trace, after_policy => after_policy)).id;
end $$;
