-- Opens a process, or moves its supervisor's next run to an earlier time. One waiting row at most: however often and by
-- whomever it is called, there is one chain. `ids` is the rest of the payload: {"invoice_reminder_task_id": 7}.
create or replace function queues.supervise(
    supervisor text, ids jsonb, run_after timestamptz default now(), queue_name text default 'default') returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    payload jsonb := internal.supervisor_payload(supervisor, ids);
begin
    insert into internal.open_process (spec_hash, payload, queue_name)
    values (queues.spec_hash('db_function', queue_name, payload), payload, queue_name)
    on conflict do nothing;
    return queues.enqueue_system('db_function', payload, run_after, queue_name, supervised => true,
                                 unique_among => 'waiting', max_attempts => 1000);
end $$;
