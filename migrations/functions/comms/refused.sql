-- The answer of a handler or supervisor that can't do anything with its payload.
create or replace function comms.refused(why text) returns jsonb
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    return jsonb_build_object('success', false, 'validation_failure_message', why);
end $$;
