-- The task of a slot, unless it was enqueued before: then nothing. It belongs to whoever made the schedule.
create or replace function internal.enqueue_scheduled(schedule queues.schedules, due timestamptz, slot timestamptz) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    new_task bigint;
begin
    if slot is not null then
        insert into internal.schedule_slot (schedule_name, slot) values ((schedule).schedule_name, slot) on conflict do nothing;
        if not found then
            return null;
        end if;
    end if;
    new_task := queues.enqueue_system((schedule).task_type, (schedule).payload_json, due, (schedule).queue_name,
                                      (schedule).priority, max_attempts => (schedule).max_attempts);
    update queues.task_runs t set created_by = (schedule).created_by, updated_at = clock_timestamp()
    where t.id = new_task and t.created_by <> (schedule).created_by;
    update internal.schedule_slot x set task_id = new_task
    where x.schedule_name = (schedule).schedule_name and x.slot = enqueue_scheduled.slot;
    return new_task;
end $$;
