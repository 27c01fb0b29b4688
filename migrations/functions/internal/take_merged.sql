-- Claims up to `wanted` rows of several lanes of one priority (in the order of their heads), oldest first across them; with
-- `slack`, lane by lane what is due at most that much after what may be the oldest. A few rows of each of the oldest lanes are
-- looked at; what lies beyond the last row seen of a lane, or beyond the start of a lane not looked at, can't be ordered yet
-- and is left. So an answer may be short without the lanes being empty: every lane comes back with its true head, and with its
-- share: how many of 500 rows claimed were its own of late. By that, and by `guess`, it is decided how many rows of a lane to
-- look at; of one that had more than was looked at, four times as many are the next time.
-- Rows that rivals hold are passed over, the next ones in order taken instead, and no head stays at them: should a rival let go
-- of one after all, the next look finds it.
-- Rows are locked by key only and judged on the locked copy: a qualification that implied the claim index's predicate made
-- the planner walk all of that index where statistics call it empty (105 ms for a claim of 100 among 12,000, instead of 1).
-- `offset 0` keeps `free` from being such a qualification.
create or replace function internal.take_merged(
    worker_id text, lease interval, candidates internal.lane[], wanted integer,
    guess integer, slack interval, inout room bigint, out rows internal.claimed[], out lanes internal.lane[])
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    lane internal.lane;
    near internal.lane[];
    far internal.lane[];
    width integer := 0;
    by_lane boolean := slack > '0';
    type_attempts jsonb;  -- what types have of their own, found once: for each row it would be three searches
    type_leases jsonb;
    budget double precision := case when by_lane then 2 else 4 end * greatest(250, wanted + 7);
begin
    foreach lane in array candidates loop
        exit when budget <= 0 or lane.more is not null;
        width := width + 1;
        budget := budget - least(greatest(wanted + 7, guess), greatest(4, guess, 2 + coalesce(lane.share, 0) * wanted / 250));
    end loop;
    near := candidates[1:width];
    far := candidates[width + 1:];
    select jsonb_object_agg(y.task_type, y.max_attempts) filter (where y.max_attempts is not null),
           jsonb_object_agg(y.task_type, y.lease) filter (where y.lease is not null)
    into type_attempts, type_leases
    from queues.task_types y where y.task_type = any (array(select l.task_type from unnest(near) l));
    with seen as materialized (
        select l.n as lane, l.share, l.depth, s.run_after, s.id, s.n
        from (select l.*, least(greatest(wanted + 7, guess), greatest(4, guess, 2 + coalesce(l.share, 0) * wanted / 250))::integer as depth
              from unnest(near) with ordinality as l(pool, queue_name, task_type, priority, run_after, id, share, more, n)) l
        cross join lateral (
            select h.run_after, h.id, row_number() over (order by h.run_after, h.id) as n
            from (select t.run_after, t.id from queues.task_runs t
                  where t.queue_name = l.queue_name and t.task_type = l.task_type and t.priority = l.priority
                    and (t.run_after, t.id) >= (l.run_after, l.id) and t.run_after <= now()
                    and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
                  order by t.run_after, t.id limit l.depth) h) s
    ), horizon as (
        select b.run_after + slack as run_after, b.id from (
            select s.run_after, s.id from seen s where s.n = s.depth
            union all
            select f.run_after, f.id from unnest(far) f) b
        order by b.run_after, b.id limit 1
    ), picked as materialized (
        select s.id from seen s
        where not exists (select from horizon b where (s.run_after, s.id) > (b.run_after, b.id))
        order by case when by_lane then floor(date_part('epoch', s.run_after) / date_part('epoch', slack))
                      else date_part('epoch', s.run_after) end,  -- one number: cheaper to sort by than what follows
                 case when by_lane then s.lane end, s.run_after, s.id
    ), locked as materialized (  -- in that order, past what rivals hold
        select x.* from picked p
        cross join lateral (
            select t.id, t.run_after, case when pg_column_compression(t.payload_json) is null then pg_column_size(t.payload_json)
                              else octet_length(t.payload_json::text) end as bytes,
                   t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null and t.run_after <= now() as free
            from queues.task_runs t where t.id = p.id offset 0 for update skip locked) x
        where x.free limit wanted
    ), together as materialized (
        select sum(p.bytes) as bytes, count(*) as rows from locked p
    ), fitting as (  -- all of them, as a rule
        select p.id from locked p where (select g.bytes from together g) < room
        union all
        select p.id from (
            select p.id, p.bytes, sum(p.bytes) over (order by p.run_after, p.id rows unbounded preceding) as upto
            from locked p) p
        where (select g.bytes from together g) >= room and p.upto - p.bytes < room
    ), taken as (
        update queues.task_runs t
        set status = 'RUNNING', worker_id = take_merged.worker_id, claim_no = t.claim_no + 1,
            attempt_count = t.attempt_count + 1,
            max_attempts = case when t.attempts_open then coalesce((type_attempts -> t.task_type)::integer, t.max_attempts)
                                else t.max_attempts end,
            attempts_open = t.attempts_open and type_attempts -> t.task_type is null,
            leased_until = clock_timestamp() + greatest(take_merged.lease, (type_leases ->> t.task_type)::interval),
            claimed_at = clock_timestamp(), started_at = null, updated_at = clock_timestamp()
        where t.id = any (array(select p.id from fitting p))
        returning t.id, t.claim_no, t.task_type, t.queue_name, t.payload_json, t.attempt_count, t.max_attempts,
                  t.timeout_s, t.idempotency_key, t.priority, t.run_after, t.created_at, t.trace
    ), pace as (
        select count(*)::real as rows, greatest(500, count(*))::real as base from taken
    ), passed as (  -- what rivals took: the next step goes on behind it
        select p.id from picked p where (select g.rows from together g) < wanted and p.id not in (select l.id from locked l)
    ), heads as (
        select distinct on (s.lane) s.lane, s.run_after, s.id,
               greatest(case when s.n = s.depth then 2 * s.depth else 0 end,
                        coalesce(s.share, 0) * (1 - g.rows / g.base) + (s.n - 1) * 500 / g.base)::real as share
        from seen s cross join pace g
        where s.id not in (select k.id from taken k union all select p.id from passed p) or s.n = s.depth  -- hashed, other than a join
        order by s.lane, s.n
    )
    select array(select s.row from (select k.run_after, k.id, k::internal.claimed as row from taken k order by 1, 2) s),
           (select coalesce(array_agg(row((near[h.lane]).pool, (near[h.lane]).queue_name, (near[h.lane]).task_type,
                                          (near[h.lane]).priority, h.run_after, h.id, h.share, null)::internal.lane), '{}') from heads h),
           room - coalesce((select g.bytes from together g), 0)
    into rows, lanes, room;
    lanes := lanes || far;
end $$;
