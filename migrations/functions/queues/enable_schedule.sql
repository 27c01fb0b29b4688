-- Pauses (enabled => false) or resumes a schedule; resumed, what it missed is up to its catch_up. Answers `enabled`,
-- `paused` or `unknown`.
create or replace function queues.enable_schedule(schedule_name text, enabled boolean default true) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    update queues.schedules s set enabled = coalesce(enable_schedule.enabled, true), last_error = null, tried_at = null, updated_at = now()
    where s.schedule_name = enable_schedule.schedule_name and internal.may_touch(s.created_by);
    if not found then
        return 'unknown';
    end if;
    perform pg_notify('reproq', 'house ');
    return case when coalesce(enabled, true) then 'enabled' else 'paused' end;
end $$;
