create or replace function internal.add_event(
    event text, task_id bigint, claim_no bigint, attempt integer, worker_id text, detail jsonb) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    insert into queues.task_events as e (event, task_id, claim_no, attempt, worker_id, detail)
    values (event, task_id, claim_no, attempt, worker_id, nullif(jsonb_strip_nulls(detail), '{}'));
end $$;
