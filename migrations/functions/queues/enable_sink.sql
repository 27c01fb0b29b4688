-- Stops deliveries to a sink (enabled => false), or goes on. Meanwhile events wait for it: three days (its max_age), then
-- they are parked. Answers `enabled`, `disabled` or `unknown`.
create or replace function queues.enable_sink(name text, enabled boolean default true) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    update queues.sinks s
    set enabled = coalesce(enable_sink.enabled, true), failures = 0, resume_at = 'epoch', updated_at = now(),
        disabled_at = case when not enable_sink.enabled then coalesce(s.disabled_at, now()) end,
        disabled_reason = case when not enable_sink.enabled then 'by hand' end
    where s.sink_name = name;
    if not found then
        return 'unknown';
    end if;
    return case when coalesce(enabled, true) then 'enabled' else 'disabled' end;
end $$;
