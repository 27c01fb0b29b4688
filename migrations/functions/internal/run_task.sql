-- One db_function task in one transaction: the function's writes and the fenced finish, finish last. Locking the row first
-- would make heartbeats wait. SECURITY INVOKER: the function runs by the worker's own grants.
-- The answer is the envelope that was recorded. If the fence no longer holds, all of it is rolled back (RQ007).
create or replace function internal.run_task(worker_id text, id bigint, claim_no bigint, payload jsonb) returns jsonb
    language plpgsql volatile security invoker
    set search_path = pg_catalog, pg_temp as $$
declare
    began timestamptz := clock_timestamp();
    outcome jsonb := internal.call_function(payload ->> 'db_function', payload);
    answer text;
begin
    if outcome -> 'success' = 'true' then
        answer := internal.succeed(worker_id, id, claim_no, outcome -> 'payload',
                                   extract(epoch from clock_timestamp() - began)::double precision);
    else
        select f.answer into answer
        from queues.finish(run_task.worker_id, jsonb_build_array(outcome || jsonb_build_object(
            'id', run_task.id, 'claim_no', run_task.claim_no, 'ran_s', extract(epoch from clock_timestamp() - began)))) f;
    end if;
    if answer is distinct from 'done' then
        raise exception using errcode = 'RQ007', message = format('the lease of task %s was %s; nothing of it was kept', id, answer);
    end if;
    return outcome;
end $$;
