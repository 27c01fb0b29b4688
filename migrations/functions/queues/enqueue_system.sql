-- For kickoffs and supervisors: may name any callable function, whoever called the kickoff. Not granted to reproq_app.
create or replace function queues.enqueue_system(
    task_type text, payload jsonb default '{}', scheduled_at timestamptz default now(), queue_name text default 'default',
    priority integer default 0, idempotency_key text default null, max_attempts integer default null,
    unique_among text default null, timeout interval default null, after bigint[] default null,
    limit_key text default null, trace text default null,
    supervised boolean default false, after_policy text default 'succeeded') returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    return (internal.enqueue_row(task_type, payload, scheduled_at, queue_name, priority, idempotency_key, max_attempts,
                                 unique_among, timeout, after, limit_key, supervised, trace, names_freely => true,
                                 after_policy => after_policy)).id;
end $$;
