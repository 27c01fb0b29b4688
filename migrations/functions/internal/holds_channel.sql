-- Whether this execution of a channel task still holds its lease.
create or replace function internal.holds_channel(task_run_id bigint, claim_no bigint, worker_id text) returns boolean
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    return exists (
        select from queues.task_runs t
        where t.id = task_run_id and t.claim_no = holds_channel.claim_no and t.worker_id = holds_channel.worker_id
          and t.leased_until is not null and t.task_type in ('email', 'sms'));
end $$;
