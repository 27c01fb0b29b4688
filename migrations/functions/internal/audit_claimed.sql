create or replace function internal.audit_claimed(worker_id text, rows internal.claimed[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    insert into queues.task_events (event, task_id, claim_no, attempt, worker_id)
    select 'claimed', r.id, r.claim_no, r.attempt_count, worker_id
    from unnest(rows) r join queues.queue_settings s on s.queue_name = r.queue_name and s.audit = 'all' order by r.id;
end $$;
