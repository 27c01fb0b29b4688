-- Whether a handler that got this payload is called for a channel task, by the execution that holds its lease or has called
-- its provider. An administrator is believed without: he may try a handler by hand.
create or replace function queues.is_execution(task_run_id bigint, payload jsonb) returns boolean
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    token text := payload #>> '{execution,token}';
begin
    if token is null then
        return pg_has_role(session_user, current_user, 'MEMBER');
    end if;
    return exists (
        select from queues.task_runs t
        where t.id = task_run_id and t.leased_until is not null
          and token = internal.execution_token(t.worker_id, t.id, t.claim_no))
    or exists (select from queues.channel_call c where c.task_id = task_run_id and c.token = token);
end $$;
