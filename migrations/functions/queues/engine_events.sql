-- Whether a queue's tasks that failed for good, its processes that ended and its workers that were lost become events.
create or replace function queues.engine_events(queue_name text, wanted boolean default true) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    perform internal.check_enqueue('x', queue_name, now(), 0, null, null, null, null, null, null, null);
    insert into queues.queue_settings as s (queue_name, engine_events) values (queue_name, coalesce(wanted, true))
    on conflict on constraint queue_settings_pkey do update set engine_events = excluded.engine_events, updated_at = now();
    return case when coalesce(wanted, true) then 'wanted' else 'unwanted' end;
end $$;
