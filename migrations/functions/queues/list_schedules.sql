-- The caller's schedules, by name.
create or replace function queues.list_schedules()
    returns table (
        schedule_name text, cron text, every interval, time_zone text, task_type text, queue_name text, catch_up text,
        enabled boolean, next_slot timestamptz, last_slot timestamptz, last_task_id bigint, last_error text)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select s.schedule_name, s.cron, s.every, s.time_zone, s.task_type::text, s.queue_name::text, s.catch_up, s.enabled,
           s.next_slot, s.last_slot, s.last_task_id, s.last_error
    from queues.schedules s where internal.may_touch(s.created_by) order by s.schedule_name;
end $$;
