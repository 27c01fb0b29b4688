-- Ends executions. `outcomes` is an array of envelopes as children send them (docs/wire.md), to which a worker may add
-- `kind` (why it failed), `detail` (for the event) and `ran_s` (how long it ran).
--
-- Rows are found by key and fence only, and status and lease are tested on the locked copy: a qualification that implied
-- the predicate of a partial index made the planner scan that index (500 tasks a second instead of 55,000).
-- They are found by `id = any`, whatever the statistics say, and joined with their outcomes by a hash, the only join that is
-- allowed here: no plan is bad while the table is small, and none has to be made anew (docs/decisions/014).
-- Answers `done`, `already` (my fence, no lease: sent twice), `cancelled` (only the lease goes), `lost`.
create or replace function queues.finish(worker_id text, outcomes jsonb)
    returns table (id bigint, claim_no bigint, answer text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_nestloop = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    perform internal.durable_commit();
    if pg_column_size(finish.outcomes) > 67108864 then
        raise exception using errcode = 'RQ002', message = 'the outcomes of one finish are longer than 64 MiB';
    end if;
    if (select f.audits from internal.flow f) then
        perform internal.audit_ended(finish.worker_id, finish.outcomes);
    end if;
    return query
    with outcome as materialized (
        select o.id, o.claim_no, o.success, o.payload, o.ran_s
        from jsonb_to_recordset(finish.outcomes) as o(
            id bigint, claim_no bigint, success boolean, payload jsonb, ran_s double precision)
        where o.id is not null and o.claim_no is not null
    ), locked as materialized (
        select t.id, t.claim_no, t.status, t.leased_until is not null as leased
        from queues.task_runs t
        where t.id = any (array(select o.id from outcome o)) and t.worker_id = finish.worker_id
        order by t.id for update
    ), held as materialized (
        select l.*, o.success, o.payload, o.ran_s
        from locked l join outcome o on o.id = l.id and o.claim_no = l.claim_no
    ), written as (
        update queues.task_runs t
        set status = case when h.status = 'RUNNING' then 'SUCCESSFUL'::queues.task_status else t.status end,
            result_json = case when h.status = 'RUNNING' then coalesce(h.payload, 'null') else t.result_json end,
            error_json = case when h.status = 'RUNNING' then null else t.error_json end,
            last_error = case when h.status = 'RUNNING' then null else t.last_error end,
            failure_kind = case when h.status = 'RUNNING' then null else t.failure_kind end,
            completed_at = case when h.status = 'RUNNING' then clock_timestamp() else t.completed_at end,
            started_at = coalesce(t.started_at, clock_timestamp() - h.ran_s * interval '1 second'),
            leased_until = null, updated_at = clock_timestamp()
        from held h
        where t.id = any (array(select l.id from locked l)) and t.id = h.id and h.leased and (h.success or h.status = 'CANCELLED')
    )
    select h.id, h.claim_no,
           case when not h.leased then 'already' when h.status = 'CANCELLED' then 'cancelled' else 'done' end
    from held h
    union all
    select o.id, o.claim_no, 'lost' from outcome o
    where (o.id, o.claim_no) not in (select h.id, h.claim_no from held h);

    if jsonb_path_exists(finish.outcomes, '$[*] ? (!(@.success == true) || (@.success == true) is unknown)') then
        perform internal.finish_failed(finish.worker_id, finish.outcomes);
    end if;
    if exists (select from internal.parent_over) then
        perform internal.tell_children();
    end if;
end $$;
