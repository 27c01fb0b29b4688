create or replace function internal.check_payload(payload jsonb) returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
declare
    fault text;
begin
    if payload is null or jsonb_typeof(payload) <> 'object' then
        raise exception using errcode = 'RQ002',
            message = format('payload must be a JSON object, not %s', coalesce(jsonb_typeof(payload), 'SQL null')),
            hint = 'Wrap the value: {"value": …}.';
    end if;
    select internal.payload_fault(payload, s.max_payload_bytes, s.max_depth, s.max_digits) into fault from queues.settings s;
    if fault is not null then
        raise exception using errcode = 'RQ002', message = 'payload ' || fault,
            hint = 'Store large data elsewhere and pass a reference; long numbers travel as strings.';
    end if;
end $$;
