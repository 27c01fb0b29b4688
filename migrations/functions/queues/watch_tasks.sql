-- What has become of these tasks since the caller saw the marks: a row for every other mark, none for the same one. No mark:
-- the task isn't there (any more) or isn't the caller's. The document is a task as the gateway shows it: no payload, and of
-- an error its message, not its traceback. One that has a result of more than max_bytes is left out: ask for that task alone.
-- `since`: the oldest transaction that ran when the caller looked before (pg_snapshot_xmin). Rows that none has written since
-- are as the caller knows them; only the others, and tasks without a mark, are looked at closely.
-- One look serves everybody who waits, forty times a second. So rows are found by `id = any`, whatever the statistics say,
-- and joined with their marks by a hash.
create or replace function queues.watch_tasks(
    ids bigint[], marks text[], max_bytes integer default 268435456, since xid8 default null)
    returns table (task_id bigint, mark text, is_over boolean, task_type text, queue_name text, document text)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_nestloop = off set jit = off
    set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    sees_all boolean := internal.may_touch(null);
    rfc3339 text := 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"';
    since_age integer := age(since::xid);
    there integer;
    written bigint[];
begin
    if since is not null then
        select count(*), array_agg(t.id) filter (where age(t.xmin) <= since_age) into there, written
        from queues.task_runs t where t.id = any (ids);
        if there = cardinality(ids) then  -- else one is gone, which no row tells
            select array_agg(w.id), array_agg(w.mark) into ids, marks
            from unnest(ids, marks) as w(id, mark) where w.mark is null or w.id = any (written);
        end if;
    end if;
    return query
    with found as materialized (
        select t.*,
               t.claim_no || '.' || case when t.status = 'CANCELLED' and t.leased_until is not null then 'STOPPING' else t.status::text end as mark,
               t.completed_at is not null and t.leased_until is null as is_over
        from queues.task_runs t
        where t.id = any (ids) and t.deleted_at is null and (sees_all or t.created_by = session_user)
    )
    select w.id, f.mark, f.is_over, f.task_type::text, f.queue_name::text,
           case when f.result_json is null or octet_length(f.result_json::text) <= max_bytes then jsonb_build_object(
               'id', f.id, 'task_type', f.task_type, 'queue_name', f.queue_name, 'status', f.status, 'over', f.is_over,
               'result', f.result_json, 'failure_kind', f.failure_kind, 'error', f.last_error,
               'attempt', f.attempt_count, 'max_attempts', f.max_attempts,
               'created_at', to_char(f.created_at at time zone 'UTC', rfc3339),
               'started_at', to_char(f.started_at at time zone 'UTC', rfc3339),
               'completed_at', to_char(f.completed_at at time zone 'UTC', rfc3339))::text end
    from unnest(ids, marks) as w(id, mark)
    left join found f on f.id = w.id
    where f.id is null or f.mark is distinct from w.mark;
end $$;
