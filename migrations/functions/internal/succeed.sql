-- The success of one execution, as queues.finish records it, for those that end one at a time: a plan for a batch would be
-- made anew for each. Same fence, same answers.
create or replace function internal.succeed(worker_id text, id bigint, claim_no bigint, result jsonb, ran_s double precision)
    returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
    held record;
    tell boolean;
    audits boolean;
    queue_name text;
    attempt integer;
    started_at timestamptz;
begin
    perform internal.durable_commit();
    -- By key and fence; the case hides status and lease from the planner (see finish).
    update queues.task_runs t
    set status = 'SUCCESSFUL', result_json = coalesce(result, 'null'), error_json = null, last_error = null, failure_kind = null,
        completed_at = clock_timestamp(), started_at = coalesce(t.started_at, clock_timestamp() - ran_s * interval '1 second'),
        leased_until = null, updated_at = clock_timestamp()
    where t.id = succeed.id and t.claim_no = succeed.claim_no and t.worker_id = succeed.worker_id
      and case when t.status = 'RUNNING' then t.leased_until is not null end
    returning t.has_children or exists (select from internal.parent_over), (select f.audits from internal.flow f),
              t.queue_name, t.attempt_count, t.started_at into tell, audits, queue_name, attempt, started_at;
    if found then
        if audits and internal.audited(queue_name) then
            perform internal.audit_started(worker_id, id, claim_no, attempt, started_at);
            perform internal.add_event('succeeded', id, claim_no, attempt, worker_id, jsonb_build_object('duration_s', ran_s));
        end if;
        if tell then
            perform internal.tell_children();
        end if;
        return 'done';
    end if;
    select t.status, t.leased_until is not null as leased into held from queues.task_runs t
    where t.id = succeed.id and t.claim_no = succeed.claim_no and t.worker_id = succeed.worker_id for update;
    if not found then
        return 'lost';
    elsif not held.leased then
        return 'already';
    end if;
    update queues.task_runs t
    set started_at = coalesce(t.started_at, clock_timestamp() - ran_s * interval '1 second'),
        leased_until = null, updated_at = clock_timestamp()
    where t.id = succeed.id;
    return 'cancelled';
end $$;
