-- Nothing of a queue is claimed until it is resumed (paused => false); what runs goes on. Known to every worker's next claim.
create or replace function queues.pause_queue(queue_name text, paused boolean default true) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    perform internal.check_enqueue('x', queue_name, now(), 0, null, null, null, null, null, null, null);
    insert into queues.queue_settings as s (queue_name, paused) values (queue_name, coalesce(paused, true))
    on conflict on constraint queue_settings_pkey do update set paused = excluded.paused, updated_at = now();
    perform internal.flow_changed();
    return case when coalesce(paused, true) then 'paused' else 'resumed' end;
end $$;
