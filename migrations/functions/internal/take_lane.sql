-- Claims up to `wanted` rows of one lane from its start, in order, past what others have locked, as long as their payloads
-- fit into `room` bytes (the one that is one too many still does). Answers them, the room that is left, and the lane with
-- its next start, or no lane where it is exhausted.
create or replace function internal.take_lane(
    worker_id text, lease interval, lane internal.lane, wanted integer,
    inout room bigint, out rows internal.claimed[], out lanes internal.lane[])
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    type_lease interval;
    type_attempts integer;
    last internal.claimed;
    seen integer;
begin
    select y.lease, y.max_attempts into type_lease, type_attempts
    from queues.task_types y where y.task_type = (lane).task_type;
    with picked as materialized (
        select t.id, case when pg_column_compression(t.payload_json) is null then pg_column_size(t.payload_json)
                          else octet_length(t.payload_json::text) end as bytes from queues.task_runs t
        where t.queue_name = (lane).queue_name and t.task_type = (lane).task_type and t.priority = (lane).priority
          and (t.run_after, t.id) >= ((lane).run_after, (lane).id) and t.run_after <= now()
          and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
        order by t.run_after, t.id limit wanted for update skip locked
    ), together as materialized (
        select sum(p.bytes) as bytes, count(*) as rows from picked p
    ), fitting as (  -- all of them, as a rule
        select p.id from picked p where (select g.bytes from together g) < room
        union all
        select p.id from (select p.id, p.bytes, sum(p.bytes) over (rows unbounded preceding) as upto from picked p) p
        where (select g.bytes from together g) >= room and p.upto - p.bytes < room
    ), taken as (
        update queues.task_runs t
        set status = 'RUNNING', worker_id = take_lane.worker_id, claim_no = t.claim_no + 1,
            attempt_count = t.attempt_count + 1,
            max_attempts = case when t.attempts_open then coalesce(type_attempts, t.max_attempts) else t.max_attempts end,
            attempts_open = t.attempts_open and type_attempts is null, leased_until = clock_timestamp() + greatest(lease, type_lease),
            claimed_at = clock_timestamp(), started_at = null, updated_at = clock_timestamp()
        where t.id = any (array(select p.id from fitting p))  -- by key whatever the statistics say (see finish)
        returning t.id, t.claim_no, t.task_type, t.queue_name, t.payload_json, t.attempt_count, t.max_attempts,
                  t.timeout_s, t.idempotency_key, t.priority, t.run_after, t.created_at, t.trace
    )
    select array(select s.row from (select k.run_after, k.id, k::internal.claimed as row from taken k order by 1, 2) s),
           room - coalesce((select g.bytes from together g), 0), (select g.rows from together g)
    into rows, room, seen;
    if cardinality(rows) = wanted or cardinality(rows) < seen then
        last := rows[cardinality(rows)];
        lane.run_after := last.run_after;
        lane.id := last.id;
        lanes := array[lane];
    else
        lanes := '{}';
    end if;
end $$;
