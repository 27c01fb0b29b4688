-- Nothing of a type is claimed until it is resumed (paused => false); what runs goes on. Known to every worker's next claim.
create or replace function queues.pause_type(task_type text, paused boolean default true) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    perform internal.check_enqueue(task_type, 'x', now(), 0, null, null, null, null, null, null, null);
    insert into queues.task_types as y (task_type, paused) values (task_type, coalesce(paused, true))
    on conflict on constraint task_types_pkey do update set paused = excluded.paused, updated_at = now();
    perform internal.flow_changed();
    return case when coalesce(paused, true) then 'paused' else 'resumed' end;
end $$;
