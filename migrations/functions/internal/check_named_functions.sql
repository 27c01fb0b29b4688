-- A payload may name functions (db_function, …_handler) only if the effective caller may run each of them himself;
-- types that the system children run are refused unless they name one.
create or replace function internal.check_named_functions(task_type text, payload jsonb) returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
declare
    refused text;
begin
    if task_type not in ('db_function', 'email', 'sms') and payload::text not like '%!_handler"%' escape '!' then
        return;
    end if;
    if task_type = 'db_function' and payload ->> 'db_function' is null then
        raise exception using errcode = 'RQ002', message = 'a db_function task needs the key db_function in its payload',
            hint = 'For example {"db_function": "billing.close_month", …}.';
    end if;
    if task_type in ('email', 'sms')
       and not exists (select from jsonb_each(payload) h where h.key like '%!_handler' escape '!' and jsonb_typeof(h.value) <> 'null') then
        raise exception using errcode = 'RQ004', message = format('%s tasks are scheduled by their supervisor', task_type),
            hint = 'Call comms.send_email or comms.send_sms.';
    end if;
    select case when payload ->> k ~ '^[A-Za-z0-9_.]{1,130}$' then format('%s = %s', k, payload -> k) else k end into refused
    from jsonb_object_keys(payload) k
    where (k like '%!_handler' escape '!' or (k = 'db_function' and task_type = 'db_function'))
      and jsonb_typeof(payload -> k) <> 'null'
      and (jsonb_typeof(payload -> k) <> 'string' or internal.resolve_function(payload ->> k) is null)
    order by k limit 1;
    if refused is not null then
        raise exception using errcode = 'RQ004',
            message = format('the payload names a function that %s may not run: %s', internal.effective_caller(), left(refused, 200)),
            hint = 'It must be schema.name (jsonb) returns jsonb in an allowed schema, with EXECUTE granted to the role that enqueues.';
    end if;
end $$;
