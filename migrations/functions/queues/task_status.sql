-- How a task stands; for the app role only its own. `leased` tells a cancelled task that is still stopping.
create or replace function queues.task_status(id bigint)
    returns table (
        task_id bigint, task_type text, queue_name text, status text, result_json jsonb, error_json jsonb, last_error text,
        failure_kind text, attempt_count integer, max_attempts integer, leased boolean, created_at timestamptz,
        started_at timestamptz, completed_at timestamptz)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select t.id, t.task_type::text, t.queue_name::text, t.status::text, t.result_json, t.error_json, t.last_error,
           t.failure_kind, t.attempt_count, t.max_attempts::integer, t.leased_until is not null, t.created_at, t.started_at,
           t.completed_at
    from queues.task_runs t
    where t.id = task_status.id and t.deleted_at is null and internal.may_touch(t.created_by);
end $$;
