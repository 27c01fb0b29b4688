create or replace function internal.wants(type_prefixes text[], event_type text) returns boolean
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    return type_prefixes is null or exists (select from unnest(type_prefixes) p where starts_with(event_type, p));
end $$;
