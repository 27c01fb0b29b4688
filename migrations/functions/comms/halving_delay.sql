-- How long to wait before the next look at something that ends at a known time, when it may change before: half of what
-- is left. Looks become more frequent as the end comes near.
create or replace function comms.halving_delay(time_left interval, at_least interval) returns interval
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    return greatest(at_least, time_left / 2);
end $$;
