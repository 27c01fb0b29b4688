-- Lanes for the hints, as read_hints reads them whatever the session's formats are: as jsonb a thousand would cost 5 ms a claim.
create or replace function internal.write_lanes(lanes internal.lane[]) returns text
    language plpgsql stable
    set search_path = pg_catalog, pg_temp set datestyle = 'ISO' as $$
begin
    return lanes;
end $$;
