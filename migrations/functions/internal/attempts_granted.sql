-- How many attempts a task was given when it was stored, or when it was replayed last: max_attempts grows with each replay.
create or replace function internal.attempts_granted(task queues.task_runs) returns integer
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select greatest(1, task.max_attempts - coalesce((
        select e.attempt from queues.task_events e
        where e.task_id = task.id and e.event = 'replayed' and e.detail ? 'was' order by e.id desc limit 1), 0))
$$;
