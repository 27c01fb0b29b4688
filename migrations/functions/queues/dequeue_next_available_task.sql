-- For workers in other languages: one task, or no row. The worker_id of the answer, with claim_no, is the fence that
-- complete_task, fail_task and heartbeat want. It counts as begun. The payload of an email or SMS is as handlers want it.
create or replace function queues.dequeue_next_available_task(
    worker_name text default null, queue_names text[] default null, lease interval default '30 seconds')
    returns table (
        id bigint, worker_id text, claim_no bigint, task_type text, queue_name text, payload jsonb, attempt integer,
        max_attempts integer, idempotency_key text, leased_until timestamptz)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    fence text := coalesce(nullif(left(worker_name, 200), ''), 'external') || '/' || pg_backend_pid() || '/' || gen_random_uuid();
    claimed record;
begin
    for claimed in select c.* from queues.claim(fence, queue_names, null, lease, 1) c loop
        return query
        update queues.task_runs t set started_at = clock_timestamp(), updated_at = clock_timestamp()
        where t.id = claimed.id
        returning t.id, t.worker_id, t.claim_no, t.task_type::text, t.queue_name::text,
                  case when t.task_type in ('email', 'sms') and jsonb_typeof(t.payload_json) = 'object'
                       then internal.for_handlers(t.payload_json, t.worker_id, t.id, t.claim_no, null) else t.payload_json end,
                  t.attempt_count,
                  t.max_attempts::integer, coalesce(t.idempotency_key, 'task-' || t.id), t.leased_until;
    end loop;
end $$;
