-- A DBFunctionResult -> an outcome for queues.finish; keep = whether the function's writes stay.
-- success, and a validation failure, commit; error, NULL and anything malformed roll back.
create or replace function internal.outcome_of(envelope jsonb) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
declare
    error text := nullif(envelope ->> 'error', '');
    invalid text := nullif(envelope ->> 'validation_failure_message', '');
    ok boolean := case when jsonb_typeof(envelope -> 'success') = 'boolean' then (envelope ->> 'success')::boolean end;
    fault text := internal.payload_fault(envelope, 16777216, 64, 1000);
begin
    if ok is null or (ok and (error is not null or invalid is not null))
       or (not ok and error is null and invalid is null) or (error is not null and invalid is not null) or fault is not null then
        return jsonb_build_object('success', false, 'kind', 'bad_envelope', 'keep', false,
            'error', 'the function must return {"success": true, …} or one of "error" and "validation_failure_message"'
                     || coalesce(': it ' || fault, ''));
    elsif ok then
        return jsonb_build_object('success', true, 'keep', true, 'result', envelope -> 'payload');
    elsif invalid is not null then
        return jsonb_build_object('success', false, 'keep', true, 'kind', 'validation', 'error', invalid);
    end if;
    return jsonb_build_object('success', false, 'keep', false, 'kind', 'raised', 'error', error);
end $$;
