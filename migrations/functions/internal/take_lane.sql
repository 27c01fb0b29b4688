-- Claims up to `wanted` rows of one lane from its start, in order, past what others have locked. Answers them, and the lane
-- with its next start, or no lane where it is exhausted.
create or replace function internal.take_lane(
    worker_id text, lease interval, lane internal.lane, wanted integer,
    out rows internal.claimed[], out lanes internal.lane[])
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    lease_of_type interval := greatest(
        lease, (select y.lease from queues.task_types y where y.task_type = (lane).task_type));
    last internal.claimed;
begin
    with picked as materialized (
        select t.id from queues.task_runs t
        where t.queue_name = (lane).queue_name and t.task_type = (lane).task_type and t.priority = (lane).priority
          and (t.run_after, t.id) >= ((lane).run_after, (lane).id) and t.run_after <= now()
          and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
        order by t.run_after, t.id limit wanted for update skip locked
    ), taken as (
        update queues.task_runs t
        set status = 'RUNNING', worker_id = take_lane.worker_id, claim_no = t.claim_no + 1,
            attempt_count = t.attempt_count + 1, leased_until = clock_timestamp() + lease_of_type,
            claimed_at = clock_timestamp(), started_at = null, updated_at = clock_timestamp()
        from picked p where t.id = p.id
        returning t.id, t.claim_no, t.task_type, t.queue_name, t.payload_json, t.attempt_count, t.max_attempts,
                  t.timeout_s, t.idempotency_key, t.priority, t.run_after, t.created_at, t.trace
    )
    select coalesce(array_agg(k::internal.claimed order by k.run_after, k.id), '{}') into rows from taken k;
    if cardinality(rows) = wanted then
        last := rows[wanted];
        lanes := array[row((lane).pool, (lane).queue_name, (lane).task_type, (lane).priority, last.run_after, last.id)::internal.lane];
    else
        lanes := '{}';
    end if;
end $$;
