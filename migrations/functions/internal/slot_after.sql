-- The slot after a slot. Days and months of an interval are those of UTC, whatever the time zone of the session that asks.
create or replace function internal.slot_after(schedule queues.schedules, slot timestamptz) returns timestamptz
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    return case when schedule.cron is null then (slot at time zone 'UTC' + schedule.every) at time zone 'UTC'
                else queues.cron_next(schedule.cron, schedule.time_zone, slot) end;
end $$;
