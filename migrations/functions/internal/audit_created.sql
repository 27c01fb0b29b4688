create or replace function internal.audit_created(queue_name text, task_type text, ids bigint[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    if internal.audited(queue_name) then
        insert into queues.task_events (event, task_id, detail)
        select 'created', i, jsonb_build_object('type', task_type, 'queue', queue_name, 'by', internal.effective_caller())
        from unnest(ids) i;
    end if;
end $$;
