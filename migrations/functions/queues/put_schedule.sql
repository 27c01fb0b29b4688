-- Makes or changes a schedule: either a cron expression in a time zone, or an interval. Its payload may name functions only
-- if the caller may run them, as with queues.enqueue. Answers the first slot.
create or replace function queues.put_schedule(
    schedule_name text, task_type text, payload jsonb default '{}', cron text default null, every interval default null,
    time_zone text default 'UTC', queue_name text default 'default', priority integer default 0,
    max_attempts integer default null, catch_up text default 'one', enabled boolean default true) returns timestamptz
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    fault text := case
        when schedule_name is null or schedule_name !~ '^[A-Za-z0-9][A-Za-z0-9_.:-]*$' or length(schedule_name) > 100
            then 'a schedule''s name is 1 to 100 letters, digits, "_", ".", ":", "-"'
        when (cron is null) = (every is null) then 'a schedule has either a cron expression or an interval'
        when every < interval '1 second' or every > interval '366 days' then 'an interval lies within 1 second and 366 days'
        when least(extract(year from every), extract(month from every), extract(day from every), extract(hour from every),
                   extract(minute from every), extract(second from every)) < 0 then 'no part of an interval is negative'
        when catch_up is null or catch_up not in ('none', 'one', 'all') then 'catch_up is ''none'', ''one'' or ''all'''
        else queues.cron_fault(cron, time_zone) end;
    first_slot timestamptz;
begin
    if fault is not null then
        raise exception using errcode = 'RQ003', message = fault;
    end if;
    perform internal.check_enqueue(task_type, queue_name, now(), priority, max_attempts, null, null, null, null, null, null);
    perform internal.check_payload(payload);
    perform internal.check_named_functions(task_type, payload);
    if exists (select from queues.schedules s where s.schedule_name = put_schedule.schedule_name and not internal.may_touch(s.created_by)) then
        raise exception using errcode = 'RQ004', message = format('schedule %s belongs to somebody else', schedule_name);
    end if;
    first_slot := case when cron is null then (now() at time zone 'UTC' + every) at time zone 'UTC'
                       else queues.cron_next(cron, time_zone, now()) end;
    insert into queues.schedules as s (schedule_name, cron, every, time_zone, task_type, payload_json, queue_name, priority,
                                       max_attempts, catch_up, enabled, next_slot)
    values (schedule_name, cron, every, time_zone, task_type, payload, queue_name, priority, max_attempts, catch_up, enabled, first_slot)
    on conflict on constraint schedules_pkey do update
    set cron = excluded.cron, every = excluded.every, time_zone = excluded.time_zone, task_type = excluded.task_type,
        payload_json = excluded.payload_json, queue_name = excluded.queue_name, priority = excluded.priority,
        max_attempts = excluded.max_attempts, catch_up = excluded.catch_up, enabled = excluded.enabled,
        next_slot = case when (s.cron, s.every, s.time_zone) is not distinct from (excluded.cron, excluded.every, excluded.time_zone)
                         then s.next_slot else excluded.next_slot end,
        last_error = null, tried_at = null, updated_at = now()
    where internal.may_touch(s.created_by)  -- once more: somebody may have made it meanwhile
    returning s.next_slot into first_slot;
    if not found then
        raise exception using errcode = 'RQ004', message = format('schedule %s belongs to somebody else', schedule_name);
    end if;
    perform pg_notify('reproq', 'house ');
    return first_slot;
end $$;
