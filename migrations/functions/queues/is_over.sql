-- Whether nothing will come of a task any more: it is final, deleted and not running, or gone. All that a process may ask
-- the queue about an attempt: decisions go by facts.
create or replace function queues.is_over(task_run_id bigint) returns boolean
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    return not exists (
        select from queues.task_runs t
        where t.id = task_run_id
          and (t.leased_until is not null
               or (t.status in ('PENDING', 'RUNNING', 'RETRYING') and t.deleted_at is null)));
end $$;
