-- The success of one execution, as queues.finish records it, for those that end one at a time: a plan for a batch would be
-- made anew for each. Same fence, same answers.
create or replace function internal.succeed(worker_id text, id bigint, claim_no bigint, result jsonb, ran_s double precision)
    returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
    held record;
begin
    perform internal.durable_commit();
    select t.status, t.leased_until is not null as leased into held from queues.task_runs t
    where t.id = succeed.id and t.claim_no = succeed.claim_no and t.worker_id = succeed.worker_id for update;
    if not found then
        return 'lost';
    elsif not held.leased then
        return 'already';
    elsif held.status = 'CANCELLED' then
        update queues.task_runs t
        set started_at = coalesce(t.started_at, clock_timestamp() - ran_s * interval '1 second'),
            leased_until = null, updated_at = clock_timestamp()
        where t.id = succeed.id;
        return 'cancelled';
    end if;
    update queues.task_runs t
    set status = 'SUCCESSFUL', result_json = coalesce(result, 'null'), error_json = null, last_error = null, failure_kind = null,
        completed_at = clock_timestamp(), started_at = coalesce(t.started_at, clock_timestamp() - ran_s * interval '1 second'),
        leased_until = null, updated_at = clock_timestamp()
    where t.id = succeed.id;
    if exists (select from internal.parent_over) then
        perform internal.tell_children();
    end if;
    return 'done';
end $$;
