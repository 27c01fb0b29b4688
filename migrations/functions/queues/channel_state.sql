-- What is known of a provider's calls for this task, under the fence of an execution: `lost` (the lease is), `new`,
-- `answered` (by an earlier execution, with the answer), `begun` (by an earlier one, and nobody knows what became of it).
create or replace function queues.channel_state(task_run_id bigint, claim_no bigint, worker_id text) returns jsonb
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    last_call queues.channel_call;
begin
    if not internal.holds_channel(task_run_id, claim_no, worker_id) then
        return '{"state": "lost"}';
    end if;
    select c.* into last_call from queues.channel_call c where c.task_id = task_run_id order by c.claim_no desc limit 1;
    if last_call.task_id is null or last_call.answer ? 'error' then
        return '{"state": "new"}';
    elsif last_call.answer is not null then
        return jsonb_build_object('state', 'answered', 'answer', last_call.answer);
    end if;
    return jsonb_build_object('state', 'begun', 'since', extract(epoch from last_call.begun_at));
end $$;
