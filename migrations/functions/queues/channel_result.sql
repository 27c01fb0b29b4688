-- Keeps what a provider answered to an execution, before a handler is called: whatever happens then, the answer is here and
-- the provider isn't asked again. Under the fence; answers `kept`, `already` or `lost`.
create or replace function queues.channel_result(task_run_id bigint, claim_no bigint, answer jsonb, worker_id text) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    kept jsonb;
begin
    perform internal.durable_commit();
    perform internal.check_payload(answer);
    if not internal.holds_channel(task_run_id, claim_no, worker_id) then
        return 'lost';
    end if;
    insert into queues.channel_call as c (task_id, claim_no, answer)
    values (task_run_id, channel_result.claim_no, channel_result.answer)
    on conflict on constraint channel_call_pkey do update set answer = coalesce(c.answer, excluded.answer)
    returning c.answer into kept;
    return case when kept = channel_result.answer then 'kept' else 'already' end;
end $$;
