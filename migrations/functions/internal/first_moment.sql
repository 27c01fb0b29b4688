-- The moment at which a clock of a zone first shows a time; if it never does (the clocks go forward), the moment at which it
-- jumps over it.
create or replace function internal.first_moment(wall timestamp, time_zone text) returns timestamptz
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
declare
    moment timestamptz := wall at time zone time_zone;
    before interval;
begin
    if (moment at time zone time_zone) <> wall then  -- a gap: PostgreSQL reckons on with the offset before it
        return internal.first_moment_after_gap(moment, time_zone);
    end if;
    -- Shown twice: PostgreSQL takes the later one.
    before := (moment - interval '1 day') at time zone time_zone - (moment - interval '1 day') at time zone 'UTC'
              - (moment at time zone time_zone - moment at time zone 'UTC');
    if before > interval '0' and ((moment - before) at time zone time_zone) = wall then
        return moment - before;
    end if;
    return moment;
end $$;
