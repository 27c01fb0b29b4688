-- How long to wait before the next look at something that may end at any moment: as long again as it has taken so far.
create or replace function comms.growing_delay(age interval, at_least interval, at_most interval) returns interval
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    return greatest(at_least, least(at_most, age));
end $$;
