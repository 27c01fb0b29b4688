-- Enqueues every slot that is due, schedule by schedule: one that fails keeps its slot, says why, and is tried again after a
-- minute; the others go on. Missed slots (over a minute late) follow catch_up. Answers how many tasks were enqueued.
create or replace function internal.enqueue_due_slots(at timestamptz) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    schedule queues.schedules;
    enqueued bigint := 0;
    message text;
begin
    for schedule in
        select s.* from queues.schedules s
        where s.enabled and s.next_slot <= at and (s.tried_at is null or s.tried_at <= at - interval '1 minute')
        order by s.next_slot limit 1000 for update skip locked
    loop
        begin
            enqueued := enqueued + internal.enqueue_slots(schedule, at);
        exception when others then
            get stacked diagnostics message = message_text;
            update queues.schedules s set last_error = left(message, 500), tried_at = at, updated_at = now()
            where s.schedule_name = schedule.schedule_name;
            insert into queues.error (source, function_name, message)
            values ('schedule', schedule.schedule_name, left(message, 2000));
        end;
    end loop;
    return enqueued;
end $$;
