-- What is known of a provider's calls for this task, under the fence of an execution: `lost` (the lease is), `new`,
-- `answered` (by an earlier execution, with the answer), `begun` (by an earlier one, and nobody knows what became of it).
-- What nobody knows, no later failure makes known: `since` is the first of those calls, and `key_may_be_forgotten` says whether
-- a repetition under its key could be a second send by now.
create or replace function queues.channel_state(task_run_id bigint, claim_no bigint, worker_id text) returns jsonb
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    answer jsonb;
    begun_at timestamptz;
begin
    if not internal.holds_channel(task_run_id, claim_no, worker_id) then
        return '{"state": "lost"}';
    end if;
    select c.answer into answer from queues.channel_call c
    where c.task_id = task_run_id and not c.answer ? 'error' order by c.claim_no desc limit 1;
    if answer is not null then
        return jsonb_build_object('state', 'answered', 'answer', answer);
    end if;
    select min(c.begun_at) into begun_at from queues.channel_call c where c.task_id = task_run_id and c.answer is null;
    if begun_at is not null then
        return jsonb_build_object('state', 'begun', 'since', extract(epoch from begun_at),
                                  'key_may_be_forgotten', comms.key_may_be_forgotten(begun_at, clock_timestamp()));
    end if;
    return '{"state": "new"}';
end $$;
