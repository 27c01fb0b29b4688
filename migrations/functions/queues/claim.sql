-- Claims due tasks: `priority desc, run_after, id` inside a queue, queues by turns.
--
-- A claim doesn't start at the head of the index, where dead entries pile up faster than vacuum removes them, but where the
-- last one of this worker ended: `hints`, in the worker's memory, hold the start of each lane (queue, type, priority). Every
-- 0.8 s, after a notification (hints null, or with `"look": true`), and when a claim comes back short, it looks from the head:
-- so urgent, newly due and late-committed rows are overlooked for a second at most. A look that takes over 50 ms stretches its
-- period to 20 times its length, 10 s at most: an old snapshot must not turn the worker into a scanner. If one takes over 2.5 s,
-- it looks every 10 s for lanes that it doesn't know, and from the heads of those that it knows only after 4 times its length.
-- Where looks take so long, hints keep exhausted lanes, and a claim that is told to look looks beside and behind what it knows
-- first, and from the heads if that brings nothing (or 8 times their length have passed), as often as it may.
-- Expired leases are reclaimed once a second on a clock of their own: a claim that is always a little short looks anew each
-- time, and would never be due. All that ran out are looked at or, where that takes long, those of the last seconds: among the
-- dead entries before them only what was late or locked can still be found.
-- Hints belong to a scope (queues, prefixes, what the pools serve, which pauses and limits there are); those of another one
-- are not used. Tasks with a key, and those that wait for others, aren't in the claim index until they may run.
--
-- `pools` tells what the worker's pools have free: [{"free": 2, "types": [...]}, {"free": 1, "prefixes": [...]}, {"free": 8}].
-- `max_bytes` bounds the payloads of an answer; the first row always fits, and the last may be one too many.
-- `next_hints` stands on the last row of an answer; of an empty answer they are the setting reproq.next_hints, until the end of
-- the transaction. Its `before_ms` = how long the claim took until the
-- first row was leased.
create or replace function queues.claim(
    worker_id text, queues text[], prefixes text[], lease interval, max_tasks integer,
    hints jsonb default null, pools jsonb default null, max_bytes bigint default 268435456)
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
    free integer[];
    wanted integer;
    flow internal.flow := (select f from internal.flow f);
    caps internal.cap[];
    scope bigint := hashtextextended(jsonb_build_array(flow.version, queues, prefixes, (
        select jsonb_agg(p.pool - 'free' order by p.n)
        from jsonb_array_elements(case when jsonb_typeof(pools) = 'array' then pools end) with ordinality as p(pool, n)
        where jsonb_typeof(p.pool) = 'object'))::text, 0);
    lanes internal.lane[];
    last_queue text;
    looked_at timestamptz;
    headed_at timestamptz;
    took interval;
    reclaimed_at timestamptz;
    swept_at timestamptz;
    sweep_took interval;
    began timestamptz;
    before_lease interval;
    reclaimed integer;
    demanded boolean;
    looked boolean;
    look_began timestamptz;
    known internal.lane[];
    rows internal.claimed[] := '{}';
    room bigint := greatest(1, coalesce(max_bytes, 268435456));
    turn record;
begin
    perform internal.check_claim(worker_id, lease, max_tasks);
    perform internal.durable_commit();
    free := internal.free_of(pools, max_tasks);
    wanted := least(max_tasks, coalesce((select sum(greatest(f, 0)) from unnest(free) f), 0));
    select h.* into looked_at, headed_at, took, reclaimed_at, swept_at, sweep_took, last_queue, demanded, lanes
    from internal.read_hints(hints, scope) h;
    began := clock_timestamp();
    if reclaimed_at is null or began >= reclaimed_at + interval '1 s' then
        if swept_at is null or began >= swept_at + least(sweep_took * 50, greatest(interval '2 min', sweep_took * 4)) then
            reclaimed := internal.reclaim('-infinity');
            swept_at := began;
            sweep_took := case when reclaimed < 500 then clock_timestamp() - began else interval '0' end;
        else
            reclaimed := internal.reclaim(reclaimed_at - interval '5 s');
        end if;
        reclaimed_at := case when reclaimed < 500 then began else reclaimed_at end;  -- else there are more
    end if;
    if looked_at is null then  -- of another scope
        lanes := null;
    end if;
    looked := wanted > 0 and (looked_at is null or demanded or clock_timestamp() >= looked_at + (
        case when took > interval '50 ms' then least(took * 20, interval '10 s') else interval '0.8 s' end));
    while wanted > 0 loop  -- else no child is free, and the worker came for the leases
        if looked then
            look_began := clock_timestamp();
            if flow.keys then
                perform internal.sweep_keys();
            end if;
            if flow.parents then
                perform internal.tell_children();
            end if;
            if lanes <> '{}' and took > interval '50 ms' and look_began < headed_at + (
                case when demanded then greatest(took * 8, interval '10 s') else took * 4 end)
            then
                lanes := internal.look(queues, prefixes, pools, internal.unbundled(lanes));
            else
                known := lanes;
                headed_at := look_began;
                lanes := internal.look(queues, prefixes, pools, '{}');
                took := clock_timestamp() - headed_at;
                if took > interval '50 ms' then
                    lanes := internal.with_exhausted(lanes, known, '{}', headed_at - interval '1 s');
                end if;
                demanded := false;
            end if;
            if not demanded then
                looked_at := look_began;
            end if;
            if last_queue is null then  -- who carries no hints (an alarm, another language) must not always begin with the first
                select l.queue_name into last_queue from unnest(lanes) l group by l.queue_name order by random() limit 1;
            end if;
        end if;
        if flow.lanes then
            caps := internal.caps_of(lanes);
        end if;
        if cardinality(rows) = 0 then
            before_lease := clock_timestamp() - began;
        end if;
        select * into turn
        from internal.take_turns(worker_id, lease, wanted - cardinality(rows), room, lanes, free, last_queue, caps);
        if flow.lanes then
            perform internal.spend(turn.rows);
        end if;
        room := turn.room;
        rows := rows || turn.rows;
        lanes := case when took > interval '50 ms' and cardinality(turn.lanes) <> cardinality(lanes)
                      then internal.with_exhausted(turn.lanes, lanes, turn.rows, '-infinity') else turn.lanes end;
        free := turn.free;
        last_queue := turn.last_queue;
        exit when cardinality(rows) >= wanted or room <= 0 or (cardinality(rows) > 0 and took > interval '50 ms');
        exit when (looked and not demanded) or clock_timestamp() < case when looked then headed_at else looked_at end + took * 4;
        looked := true;
        demanded := false;
    end loop;
    if cardinality(rows) = 0 then
        perform set_config('reproq.next_hints', internal.write_hints(
            scope, looked_at, headed_at, took, reclaimed_at, swept_at, sweep_took, last_queue, lanes)::text, true);
        return;
    end if;
    if flow.audits then
        perform internal.audit_claimed(worker_id, rows);
    end if;
    delete from queues.sleeper s where s.worker_id = claim.worker_id;
    return query
    select r.id, r.claim_no, r.task_type, r.queue_name, r.payload_json, r.attempt_count, r.max_attempts, r.timeout_s,
           r.idempotency_key, r.priority, r.run_after, r.created_at, r.trace,
           case when n = cardinality(rows) then internal.write_hints(
               scope, looked_at, headed_at, took, reclaimed_at, swept_at, sweep_took, last_queue, lanes)
               || jsonb_build_object('before_ms', extract(epoch from before_lease) * 1000) end
    from unnest(rows) with ordinality as r(
        id, claim_no, task_type, queue_name, payload_json, attempt_count, max_attempts, timeout_s, idempotency_key,
        priority, run_after, created_at, trace, n);
end $$;
