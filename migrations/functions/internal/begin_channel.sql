-- The start of a channel task: what is known already, else the before-handler and the mark that the provider is about to be
-- called, committed together. `provider` says which one and how it resolves a lost answer. SECURITY INVOKER, as run_task.
create or replace function internal.begin_channel(
    worker_id text, id bigint, claim_no bigint, payload jsonb, provider jsonb) returns jsonb
    language plpgsql volatile security invoker
    set search_path = pg_catalog, pg_temp as $$
declare
    state jsonb := queues.channel_state(id, claim_no, worker_id);
    outcome jsonb;
begin
    if state ->> 'state' = 'lost' or state ->> 'state' = 'answered' then
        return state;
    end if;
    outcome := case when payload ->> 'before_handler' is null then jsonb_build_object('success', true, 'payload', payload)
                    else internal.call_function(payload ->> 'before_handler', internal.for_handlers(payload, worker_id, id, claim_no, provider)) end;
    if outcome -> 'success' = 'true' and not queues.channel_begin(id, claim_no, worker_id) then
        raise exception using errcode = 'RQ007', message = format('the lease of task %s was lost; nothing of it was kept', id);
    end if;
    return state || jsonb_build_object('outcome', outcome);
end $$;
