-- A DBFunctionResult -> an outcome for queues.finish; keep = whether the function's writes stay.
-- success, a validation failure and a snooze commit; error, NULL and anything malformed roll back. An error may say when to retry
-- (retry_in_s), or that it is no use (final).
create or replace function internal.outcome_of(envelope jsonb) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
declare
    error text;
    invalid text;
    ok boolean;
    retry_in numeric;
    snooze numeric;
    fault text;
begin
    -- What most functions answer, and nothing can be wrong with: the looks below cost as much as the function itself.
    if (case when jsonb_typeof(envelope) = 'object' then
            envelope - 'payload' = '{"success": true}' and octet_length(envelope::text) <= 128 end) then
        return jsonb_build_object('success', true, 'keep', true, 'payload', envelope -> 'payload');
    end if;
    error := nullif(envelope ->> 'error', '');
    invalid := nullif(envelope ->> 'validation_failure_message', '');
    ok := case when jsonb_typeof(envelope -> 'success') = 'boolean' then (envelope ->> 'success')::boolean end;
    retry_in := case when jsonb_typeof(envelope -> 'retry_in_s') = 'number' then (envelope ->> 'retry_in_s')::numeric end;
    snooze := case when jsonb_typeof(envelope -> 'snooze_s') = 'number' then (envelope ->> 'snooze_s')::numeric end;
    fault := internal.payload_fault(envelope, 16777216, 65, 1000);
    if ok = false and snooze between 0 and 366 * 86400 and fault is null then
        return jsonb_build_object('success', false, 'keep', true, 'snooze_s', snooze);
    elsif ok is null or (ok and (error is not null or invalid is not null))
       or (not ok and error is null and invalid is null) or (error is not null and invalid is not null) or fault is not null
       or (coalesce(envelope -> 'retry_in_s', 'null') <> 'null' and (retry_in is null or retry_in not between 0 and 366 * 86400))
       or coalesce(jsonb_typeof(envelope -> 'final'), 'null') not in ('boolean', 'null') then
        return jsonb_build_object('success', false, 'kind', 'bad_envelope', 'keep', false,
            'error', 'the function must return {"success": true, …} or one of "error" and "validation_failure_message"'
                     || coalesce(': it ' || fault, ''));
    elsif ok then
        return jsonb_build_object('success', true, 'keep', true, 'payload', envelope -> 'payload');
    elsif invalid is not null then
        return jsonb_build_object('success', false, 'keep', true, 'kind', 'validation', 'error', invalid);
    end if;
    return jsonb_strip_nulls(jsonb_build_object('success', false, 'keep', false, 'kind', 'raised', 'error', error,
                                                'retry_in_s', retry_in, 'final', envelope -> 'final'));
end $$;
