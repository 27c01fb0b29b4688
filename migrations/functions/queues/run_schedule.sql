-- Enqueues a schedule's task now, beside its slots. Answers the task's id, or null: no such schedule of yours.
create or replace function queues.run_schedule(schedule_name text) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    schedule queues.schedules;
begin
    select s.* into schedule from queues.schedules s
    where s.schedule_name = run_schedule.schedule_name and internal.may_touch(s.created_by);
    if schedule.schedule_name is null then
        return null;
    end if;
    return internal.enqueue_scheduled(schedule, now(), null);
end $$;
