-- What is installed, for a login that may read no table. A worker compares it with its own files.
create or replace function internal.installed_version(out schema_version integer, out compatible_from integer)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    select v.schema_version, v.compatible_from into schema_version, compatible_from from internal.schema_version v;
end $$;
