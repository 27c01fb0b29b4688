-- Success, from a worker in another language. Answers as finish does.
create or replace function queues.complete_task(id bigint, worker_id text, claim_no bigint, result jsonb default null) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    return (select f.answer from queues.finish(complete_task.worker_id, jsonb_build_array(jsonb_build_object(
        'id', complete_task.id, 'claim_no', complete_task.claim_no, 'success', true, 'result', complete_task.result))) f);
end $$;
