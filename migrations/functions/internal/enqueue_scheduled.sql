-- The task of a slot. Its key names the slot: enqueued again, it is the same task. It belongs to whoever made the schedule.
create or replace function internal.enqueue_scheduled(schedule queues.schedules, due timestamptz, slot timestamptz) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    task_id bigint;
begin
    task_id := queues.enqueue_system(
        schedule.task_type, schedule.payload_json, due, schedule.queue_name, schedule.priority,
        idempotency_key => case when slot is not null then
            format('schedule %s %s', schedule.schedule_name, to_char(slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SSZ')) end,
        max_attempts => schedule.max_attempts);
    update queues.task_runs t set created_by = schedule.created_by, updated_at = clock_timestamp()
    where t.id = task_id and t.created_by <> schedule.created_by;
    return task_id;
end $$;
