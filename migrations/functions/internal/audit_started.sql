-- Once for an execution: what begins is told by queues.start for some, and by their finish for all.
create or replace function internal.audit_started(
    worker_id text, task_id bigint, claim_no bigint, attempt integer, started_at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    insert into queues.task_events (event, task_id, claim_no, attempt, worker_id, created_at)
    select 'started', task_id, claim_no, attempt, worker_id, started_at
    where audit_started.started_at is not null and not exists (select from queues.task_events e
                      where e.task_id = audit_started.task_id and e.claim_no = audit_started.claim_no and e.event = 'started');
end $$;
