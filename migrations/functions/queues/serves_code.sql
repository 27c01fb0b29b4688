-- Whether a program of this schema version may go on: for those who may not see more of the schema than that.
create or replace function queues.serves_code(version integer) returns boolean
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from internal.schema_version v where version between v.compatible_from and v.schema_version);
end $$;
