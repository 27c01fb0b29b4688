-- The next slots of a schedule, as they will be if nobody changes it.
create or replace function queues.schedule_slots(schedule_name text, slots integer default 5) returns setof timestamptz
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    schedule queues.schedules;
    slot timestamptz;
begin
    select s.* into schedule from queues.schedules s
    where s.schedule_name = schedule_slots.schedule_name and internal.may_touch(s.created_by);
    slot := schedule.next_slot;
    for i in 1 .. least(coalesce(slots, 5), 100) loop
        exit when slot is null;
        return next slot;
        slot := internal.slot_after(schedule, slot);
    end loop;
end $$;
