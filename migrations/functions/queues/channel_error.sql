-- Puts an error of a channel task on record (queues.error), under the fence. Answers whether the fence held.
create or replace function queues.channel_error(
    task_run_id bigint, claim_no bigint, worker_id text, function_name text, message text) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    if not internal.holds_channel(task_run_id, claim_no, worker_id) then
        return false;
    end if;
    insert into queues.error (task_id, claim_no, source, function_name, message)
    select t.id, t.claim_no, t.task_type, left(channel_error.function_name, 130), left(channel_error.message, 2000)
    from queues.task_runs t where t.id = task_run_id;
    return true;
end $$;
