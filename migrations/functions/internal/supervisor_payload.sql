-- The one spelling of a supervisor's payload: two spellings would be two chains.
create or replace function internal.supervisor_payload(supervisor text, ids jsonb) returns jsonb
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    if supervisor is null or jsonb_typeof(ids) is distinct from 'object' then
        raise exception using errcode = 'RQ003', message = 'a supervisor needs its name and an object with the id of its process',
            hint = 'For example queues.supervise(''billing.reminder_supervisor'', ''{"reminder_task_id": 7}'').';
    end if;
    return ids || jsonb_build_object('task_type', 'db_function', 'db_function', supervisor);
end $$;
