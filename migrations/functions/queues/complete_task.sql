-- Success, from a worker in another language. Answers as finish does.
create or replace function queues.complete_task(id bigint, worker_id text, claim_no bigint, result jsonb default null) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    fault text := internal.payload_fault(complete_task.result, 16777216, 64, 1000);
begin
    if fault is not null then
        raise exception using errcode = 'RQ002', message = 'result ' || fault,
            hint = 'Store large data elsewhere and return a reference; long numbers travel as strings. The task is still yours.';
    end if;
    return internal.succeed(complete_task.worker_id, complete_task.id, complete_task.claim_no, complete_task.result, null);
end $$;
