-- An id from a payload, or null if it holds none.
create or replace function comms.id_of(value jsonb) returns bigint
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    return case when (value #>> '{}') ~ '^[0-9]{1,18}$' then (value #>> '{}')::bigint end;
end $$;
