-- 'schema.name' -> the function's oid, or null: unknown, ungranted, wrong shape and forbidden schema look the same.
-- Callable = a plain function (jsonb) returns jsonb in an allowed schema on which the effective caller has EXECUTE.
create or replace function internal.resolve_function(function_name text) returns oid
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
    parts text[];
    caller text := internal.effective_caller();
begin
    if function_name is null or length(function_name) > 127
       or function_name !~ '^[A-Za-z_][A-Za-z0-9_]*[.][A-Za-z_][A-Za-z0-9_]*$' then
        return null;
    end if;
    parts := string_to_array(function_name, '.');
    if greatest(length(parts[1]), length(parts[2])) > 63 then  -- PostgreSQL would cut it off, and find another one
        return null;
    end if;
    return (
        select p.oid
        from pg_catalog.pg_proc p
        join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        join internal.callable_schema c on c.schema_name = n.nspname
        where n.nspname = parts[1] and p.proname = parts[2]
          and p.prokind = 'f' and not p.proretset and p.provariadic = 0
          and p.pronargs = 1 and p.proargtypes[0] = 'pg_catalog.jsonb'::regtype
          and p.prorettype = 'pg_catalog.jsonb'::regtype
          and has_schema_privilege(caller, n.oid, 'USAGE')
          and has_function_privilege(caller, p.oid, 'EXECUTE'));
end $$;
