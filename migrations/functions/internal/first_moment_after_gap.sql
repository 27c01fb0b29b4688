-- The minute at which a zone's clock jumped forward, not long before a moment.
create or replace function internal.first_moment_after_gap(moment timestamptz, time_zone text) returns timestamptz
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select max(m)
        from generate_series(date_trunc('minute', moment) - interval '3 hours', date_trunc('minute', moment), interval '1 minute') m
        where (m at time zone time_zone) - ((m - interval '1 minute') at time zone time_zone) > interval '1 minute');
end $$;
