-- Commits that these executions begin. A row on its last attempt needs it before a child sees its line: an expired last
-- attempt that never started goes back uncounted. Rows are found by key and fence only and joined by a hash, the lease is
-- tested on the locked copy (see finish).
create or replace function queues.start(worker_id text, ids bigint[], claim_nos bigint[])
    returns table (id bigint, claim_no bigint, answer text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_nestloop = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    perform internal.durable_commit();
    return query
    with asked as materialized (
        select a.id, a.claim_no from unnest(start.ids, start.claim_nos) as a(id, claim_no)
        where a.id is not null and a.claim_no is not null
    ), locked as materialized (
        select t.id, t.claim_no, t.status, t.leased_until is not null as leased
        from queues.task_runs t
        where t.id = any (start.ids) and t.worker_id = start.worker_id
        order by t.id for update
    ), held as materialized (
        select l.* from locked l join asked a on a.id = l.id and a.claim_no = l.claim_no
    ), written as (
        update queues.task_runs t
        set started_at = coalesce(t.started_at, clock_timestamp()), updated_at = clock_timestamp()
        from held h
        where t.id = any (start.ids) and t.id = h.id and h.leased and h.status = 'RUNNING'
    )
    select h.id, h.claim_no, case when not h.leased then 'lost' when h.status = 'RUNNING' then 'kept' else 'cancelled' end
    from held h
    union all
    select a.id, a.claim_no, 'lost' from asked a where (a.id, a.claim_no) not in (select h.id, h.claim_no from held h);
    if (select f.audits from internal.flow f) then
        perform internal.audit_started(start.worker_id, t.id, t.claim_no, t.attempt_count, t.started_at)
        from queues.task_runs t join unnest(start.ids, start.claim_nos) as a(id, claim_no) on t.id = a.id and t.claim_no = a.claim_no
        where t.id = any (start.ids) and t.worker_id = start.worker_id and t.leased_until is not null and t.status = 'RUNNING' and internal.audited(t.queue_name);
    end if;
end $$;
