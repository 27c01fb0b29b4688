-- Calls a function that a payload names and answers with the outcome of its envelope. What an error, an exception or a
-- malformed envelope wrote is rolled back. SECURITY INVOKER: it runs by the caller's own grants.
create or replace function internal.call_function(function_name text, payload jsonb) returns jsonb
    language plpgsql volatile security invoker
    set search_path = pg_catalog, pg_temp as $$
declare
    outcome jsonb;
    sql_state text;
    message text;
    context text;
begin
    outcome := internal.outcome_of(internal.run_function(function_name, payload));
    if outcome -> 'keep' = 'false' then
        raise exception using errcode = 'RQ008';
    end if;
    return outcome;
exception when others then
    get stacked diagnostics sql_state = returned_sqlstate, message = message_text, context = pg_exception_context;
    if outcome is not null then
        return outcome;  -- ours: the function has answered, and its writes are gone now
    elsif sql_state = 'RQ005' and internal.resolve_function(function_name) is null then
        return jsonb_build_object('success', false, 'kind', 'no_handler_registered', 'error', message);
    end if;
    return jsonb_build_object('success', false, 'kind', 'raised', 'error', message,
        'error_detail', jsonb_build_object('sqlstate', sql_state, 'context', left(context, 2000)));
end $$;
