-- Answers `dropped` or `unknown`. Tasks that it has enqueued stay.
create or replace function queues.drop_schedule(schedule_name text) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    delete from queues.schedules s
    where s.schedule_name = drop_schedule.schedule_name and internal.may_touch(s.created_by);
    return case when found then 'dropped' else 'unknown' end;
end $$;
