-- Failure, from a worker in another language: retried by policy unless `retry` is false. Answers as finish does.
create or replace function queues.fail_task(
    id bigint, worker_id text, claim_no bigint, error text, retry boolean default true) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    return coalesce((select f.answer from queues.finish(fail_task.worker_id, jsonb_build_array(jsonb_build_object(
        'id', fail_task.id, 'claim_no', fail_task.claim_no, 'success', false, 'kind', 'raised',
        'error', coalesce(nullif(fail_task.error, ''), 'the worker named no reason'), 'final', not fail_task.retry))) f), 'lost');
end $$;
