-- Extends leases. Never waits: a row that somebody has locked is `busy`, neither extended nor lost. A cancelled task keeps
-- its lease too, until its worker confirms that it has stopped. `started` says which of them have begun.
-- Rows are found by key and fence only and joined by a hash, the lease is tested on the locked copy (see finish).
create or replace function queues.heartbeat(
    worker_id text, ids bigint[], claim_nos bigint[], lease interval, started boolean[] default null)
    returns table (id bigint, claim_no bigint, answer text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_nestloop = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    perform internal.check_claim(heartbeat.worker_id, heartbeat.lease, 0);
    perform internal.durable_commit();
    update queues.workers w set last_heartbeat = clock_timestamp() where w.id = heartbeat.worker_id;
    return query
    with asked as materialized (
        select a.id, a.claim_no, a.started
        from unnest(heartbeat.ids, heartbeat.claim_nos, heartbeat.started) as a(id, claim_no, started)
        where a.id is not null and a.claim_no is not null
    ), locked as materialized (
        select t.id, t.claim_no, t.status, t.task_type, t.leased_until is not null as leased
        from queues.task_runs t
        where t.id = any (heartbeat.ids) and t.worker_id = heartbeat.worker_id
        order by t.id for update skip locked
    ), held as materialized (
        select l.*, a.started from locked l join asked a on a.id = l.id and a.claim_no = l.claim_no
    ), kept as (
        update queues.task_runs t
        set leased_until = clock_timestamp() + greatest(
                heartbeat.lease, (select y.lease from queues.task_types y where y.task_type = h.task_type)),
            started_at = coalesce(t.started_at, case when h.started then clock_timestamp() end),
            updated_at = clock_timestamp()
        from held h
        where t.id = any (heartbeat.ids) and t.id = h.id and h.leased
    )
    select h.id, h.claim_no, case when not h.leased then 'lost' when h.status = 'RUNNING' then 'kept' else 'cancelled' end
    from held h
    union all
    select a.id, a.claim_no,
           case when (select t.leased_until is not null from queues.task_runs t
                      where t.id = a.id and t.claim_no = a.claim_no and t.worker_id = heartbeat.worker_id) then 'busy'
                else 'lost' end
    from asked a where (a.id, a.claim_no) not in (select h.id, h.claim_no from held h);
end $$;
