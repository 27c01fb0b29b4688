-- 'schema.name' -> the function's oid, or null: unknown, ungranted, wrong shape and forbidden schema look the same.
-- Callable = a plain function (jsonb) returns jsonb in an allowed schema on which the effective caller has EXECUTE.
-- One look by key after the other: a join of the three tables cost more than most functions that are called.
create or replace function internal.resolve_function(function_name text) returns oid
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
    parts text[];
    caller text := internal.effective_caller();
    schema_id oid;
    function_id oid;
begin
    if function_name is null or length(function_name) > 127
       or function_name !~ '^[A-Za-z_][A-Za-z0-9_]*[.][A-Za-z_][A-Za-z0-9_]*$' then
        return null;
    end if;
    parts := string_to_array(function_name, '.');
    if greatest(length(parts[1]), length(parts[2])) > 63 then  -- PostgreSQL would cut it off, and find another one
        return null;
    end if;
    schema_id := to_regnamespace(quote_ident(parts[1]));
    if schema_id is null or not exists (select from internal.callable_schema c where c.schema_name = parts[1]::name)
       or not has_schema_privilege(caller, schema_id, 'USAGE') then
        return null;
    end if;
    select p.oid into function_id  -- 3802: jsonb, in every PostgreSQL; by name it would be looked up each time
    from pg_catalog.pg_proc p
    where p.proname = parts[2]::name and p.pronamespace = schema_id
      and p.proargtypes = '3802' and p.prorettype = 3802 and p.prokind = 'f' and not p.proretset;
    if has_function_privilege(caller, function_id, 'EXECUTE') then
        return function_id;
    end if;
    return null;
end $$;
