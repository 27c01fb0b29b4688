-- Whether a provider may no longer remember a send's key: it does for 24 h from the first use, so an hour is left for the call.
create or replace function comms.key_may_be_forgotten(first_started_at timestamptz, at timestamptz) returns boolean
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    return at >= first_started_at + interval '23 hours';
end $$;
