-- Claims due tasks: `priority desc, run_after, id` inside a queue, queues by turns.
--
-- A claim doesn't start at the head of the index, where dead entries pile up faster than vacuum removes them, but where the
-- last one of this worker ended: `hints`, in the worker's memory, hold the start of each lane (queue, type, priority). Once
-- a second, after a notification (hints null), and when a claim comes back short, it looks from the head: so urgent, newly
-- due and late-committed rows are overlooked for a second at most. A look that takes over 50 ms stretches its period to 20
-- times its length, 10 s at most: an old snapshot must not turn the worker into a scanner.
--
-- `pools` tells what the worker's pools have free: [{"free": 2, "types": [...]}, {"free": 1, "prefixes": [...]}, {"free": 8}].
-- `next_hints` stands on the last row of an answer; an empty answer has none.
create or replace function queues.claim(
    worker_id text, queues text[], prefixes text[], lease interval, max_tasks integer,
    hints jsonb default null, pools jsonb default null)
    returns table (
        id bigint, claim_no bigint, task_type text, queue_name text, payload_json jsonb, attempt_count integer,
        max_attempts integer, timeout_s double precision, idempotency_key text, priority integer,
        run_after timestamptz, created_at timestamptz, trace text, next_hints jsonb)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_variable
declare
    free integer[] := coalesce(
        (select array_agg((p.pool ->> 'free')::integer order by p.n)
         from jsonb_array_elements(pools) with ordinality as p(pool, n)), array[max_tasks]);
    wanted integer := least(max_tasks, (select sum(greatest(f, 0)) from unnest(free) f));
    lanes internal.lane[];
    last_queue text := hints ->> 'queue';
    looked_at timestamptz := (hints ->> 'at')::timestamptz;
    took interval := coalesce((hints ->> 'took_ms')::double precision, 0) * interval '1 millisecond';
    looked boolean := false;
    rows internal.claimed[] := '{}';
    turn record;
begin
    perform internal.check_claim(worker_id, lease, max_tasks);
    perform internal.durable_commit();
    if wanted <= 0 then  -- a worker with no child free: expired leases must not wait for it
        perform internal.reclaim();
        return;
    end if;
    if looked_at is null
       or clock_timestamp() >= looked_at + (case when took > interval '50 ms' then least(took * 20, interval '10 s')
                                                 else interval '1 s' end) then
        perform internal.reclaim();
        looked := true;
    else
        lanes := array(
            select row((l ->> 0)::integer, l ->> 1, l ->> 2, (l ->> 3)::integer, (l ->> 4)::timestamptz, (l ->> 5)::bigint)::internal.lane
            from jsonb_array_elements(hints -> 'lanes') l);
    end if;
    loop
        if looked then
            looked_at := clock_timestamp();
            lanes := internal.look(queues, prefixes, pools);
            took := clock_timestamp() - looked_at;
        end if;
        select * into turn
        from internal.take_turns(worker_id, lease, wanted - cardinality(rows), lanes, free, last_queue);
        rows := rows || turn.rows;
        lanes := turn.lanes;
        free := turn.free;
        last_queue := turn.last_queue;
        exit when looked or cardinality(rows) >= wanted or clock_timestamp() < looked_at + took * 4;
        looked := true;
    end loop;
    if cardinality(rows) = 0 then
        return;
    end if;
    delete from queues.sleeper s where s.worker_id = claim.worker_id;
    return query
    select r.id, r.claim_no, r.task_type, r.queue_name, r.payload_json, r.attempt_count, r.max_attempts, r.timeout_s,
           r.idempotency_key, r.priority, r.run_after, r.created_at, r.trace,
           case when n = cardinality(rows) then jsonb_build_object(
               'at', looked_at, 'took_ms', extract(epoch from took) * 1000, 'queue', last_queue, 'lanes', coalesce(
                   (select jsonb_agg(jsonb_build_array(l.pool, l.queue_name, l.task_type, l.priority, l.run_after, l.id))
                    from unnest(lanes) l), '[]')) end
    from unnest(rows) with ordinality as r(
        id, claim_no, task_type, queue_name, payload_json, attempt_count, max_attempts, timeout_s, idempotency_key,
        priority, run_after, created_at, trace, n);
end $$;
