-- As queues.enqueue, and tells whether the row is new and, if not, whether it is the same work (HTTP 201, 200, 422).
create or replace function queues.enqueue_once(
    task_type text, payload jsonb default '{}', scheduled_at timestamptz default now(), queue_name text default 'default',
    priority integer default 0, idempotency_key text default null, max_attempts integer default null,
    unique_among text default null, timeout interval default null, after bigint[] default null,
    limit_key text default null, trace text default null, after_policy text default 'succeeded',
    out id bigint, out is_new boolean, out same_spec boolean)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    select r.id, r.is_new, r.same_spec into id, is_new, same_spec
    from internal.enqueue_row(task_type, payload, scheduled_at, queue_name, priority, idempotency_key, max_attempts,
                                 unique_among, timeout, after, limit_key, false, trace, after_policy => after_policy) r;
end $$;
