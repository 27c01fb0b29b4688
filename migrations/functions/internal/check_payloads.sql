-- As check_payload for each; the error names the first bad one by its place.
create or replace function internal.check_payloads(task_type text, payloads jsonb[], idempotency_keys text[]) returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    bad bigint;
    names_functions boolean := task_type in ('db_function', 'email', 'sms');
begin
    if payloads is null then
        raise exception using errcode = 'RQ002', message = 'payloads is null', hint = 'Pass an array of JSON objects; it may be empty.';
    end if;
    if idempotency_keys is not null and cardinality(idempotency_keys) <> cardinality(payloads) then
        raise exception using errcode = 'RQ003',
            message = format('%s idempotency keys for %s payloads', cardinality(idempotency_keys), cardinality(payloads)),
            hint = 'Pass one key (or null) for each payload.';
    end if;
    if exists (select from unnest(idempotency_keys) k where length(k) not between 1 and 500) then
        raise exception using errcode = 'RQ003', message = 'an idempotency key is empty or longer than 500 characters',
            hint = 'A key has 1 to 500 characters; pass null for none. Nothing of this call was stored.';
    end if;
    select min(p.n) into bad
    from unnest(payloads) with ordinality as p(payload, n), queues.settings s
    where case when p.payload is null or jsonb_typeof(p.payload) <> 'object' then true
               when octet_length(p.payload::text) <= least(s.max_payload_bytes, 2 * s.max_depth, s.max_digits) then false  -- too short
               else internal.payload_fault(p.payload, s.max_payload_bytes, s.max_depth, s.max_digits) is not null end;
    if bad is not null then
        begin
            perform internal.check_payload(payloads[bad]);
        exception when sqlstate 'RQ002' then
            raise exception using errcode = 'RQ002', message = format('payload no. %s: %s', bad, sqlerrm),
                hint = 'Nothing of this call was stored.';
        end;
    end if;
    perform internal.check_named_functions(task_type, p.payload) from unnest(payloads) as p(payload)
    where names_functions or p.payload::text like '%!_handler"%' escape '!';
end $$;
