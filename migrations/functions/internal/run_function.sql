-- Calls a function that a payload names, as the caller: SECURITY INVOKER, so that the target's own grants decide. Nested
-- under a definer function it would run as that function's owner: resolve_function checks the effective caller itself.
create or replace function internal.run_function(function_name text, payload jsonb) returns jsonb
    language plpgsql security invoker
    set search_path = pg_catalog, pg_temp as $$
declare
    answer jsonb;
    parts text[];
begin
    if internal.resolve_function(function_name) is null then
        raise exception using errcode = 'RQ005',
            message = format('no function %s that this task may call', quote_literal(left(coalesce(function_name, '(null)'), 130))),
            hint = 'It must be schema.name, take one jsonb, return jsonb, lie in a schema of internal.callable_schema '
                   '(internal.allow_schema), and EXECUTE must be granted to the calling role.';
    end if;
    parts := string_to_array(function_name, '.');
    execute format('select %I.%I($1)', parts[1], parts[2]) into answer using payload;
    return answer;
end $$;
