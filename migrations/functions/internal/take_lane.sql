-- Claims up to `wanted` rows of one lane from its start, in order, past what others have locked. Answers them, and the lane
-- with its next start, or no lane where it is exhausted.
create or replace function internal.take_lane(
    worker_id text, lease interval, lane internal.lane, wanted integer,
    out rows internal.claimed[], out lanes internal.lane[])
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    type_lease interval;
    type_attempts integer;
    last internal.claimed;
begin
    select y.lease, y.max_attempts into type_lease, type_attempts
    from queues.task_types y where y.task_type = (lane).task_type;
    with picked as materialized (
        select t.id from queues.task_runs t
        where t.queue_name = (lane).queue_name and t.task_type = (lane).task_type and t.priority = (lane).priority
          and (t.run_after, t.id) >= ((lane).run_after, (lane).id) and t.run_after <= now()
          and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
        order by t.run_after, t.id limit wanted for update skip locked
    ), taken as (
        update queues.task_runs t
        set status = 'RUNNING', worker_id = take_lane.worker_id, claim_no = t.claim_no + 1,
            attempt_count = t.attempt_count + 1,
            max_attempts = case when t.attempts_open then coalesce(type_attempts, t.max_attempts) else t.max_attempts end,
            attempts_open = t.attempts_open and type_attempts is null, leased_until = clock_timestamp() + greatest(lease, type_lease),
            claimed_at = clock_timestamp(), started_at = null, updated_at = clock_timestamp()
        where t.id = any (array(select p.id from picked p))  -- by key whatever the statistics say (see finish)
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
