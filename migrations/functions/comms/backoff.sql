-- How long after its n-th failure a process tries again.
create or replace function comms.backoff(failures integer, base interval, cap interval) returns interval
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    return least(cap, base * 2 ^ least(greatest(failures, 1) - 1, 30));
end $$;
