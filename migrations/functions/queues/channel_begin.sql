-- Marks, under the fence, that the provider is about to be called. Answers whether it may be.
create or replace function queues.channel_begin(task_run_id bigint, claim_no bigint, worker_id text) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    perform internal.durable_commit();
    if not internal.holds_channel(task_run_id, claim_no, worker_id) then
        return false;
    end if;
    insert into queues.channel_call (task_id, claim_no, token)
    values (task_run_id, channel_begin.claim_no, internal.execution_token(worker_id, task_run_id, channel_begin.claim_no))
    on conflict do nothing;
    return true;
end $$;
