-- The due slots of one schedule, at most 1,000 at a time; the row is locked.
create or replace function internal.enqueue_slots(schedule queues.schedules, at timestamptz) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    slot timestamptz := schedule.next_slot;
    following timestamptz;
    enqueued bigint := 0;
    seconds numeric;
    task_id bigint;
begin
    -- Many are missed at once by their number; months, which differ in length, one by one.
    if date_trunc('month', schedule.every) = interval '0' and schedule.catch_up <> 'all' and slot <= at - schedule.every then
        seconds := extract(epoch from schedule.every);
        slot := slot + floor(extract(epoch from at - slot) / seconds) * seconds * interval '1 second';
    end if;
    for i in 1 .. 1000 loop
        exit when slot is null or slot > at;
        following := internal.slot_after(schedule, slot);
        if schedule.catch_up = 'all' or (coalesce(following > at, true)
                                         and (schedule.catch_up = 'one' or slot > at - interval '1 minute')) then
            task_id := internal.enqueue_scheduled(schedule, slot, slot);
            enqueued := enqueued + (task_id is not null)::integer;
        end if;
        schedule.last_slot := slot;
        slot := following;
    end loop;
    update queues.schedules s
    set next_slot = slot, last_slot = schedule.last_slot, last_task_id = coalesce(task_id, s.last_task_id), last_error = null,
        tried_at = null, updated_at = now()
    where s.schedule_name = schedule.schedule_name;
    return enqueued;
end $$;
