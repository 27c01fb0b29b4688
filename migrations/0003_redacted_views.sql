-- What reproq_reader sees: no payload, no result, no text of an error (it may quote either), no key that the application
-- chose, and of a worker's id only the part that people gave it: the rest is a fence.

create view queues.tasks_redacted as
    select id, task_type, queue_name, status, priority, run_after, attempt_count, max_attempts, give_backs, failure_kind,
           claim_no, substring(worker_id from '^(.*)/[^/]*$') as worker, leased_until, timeout_s, waiting_for, limit_slot,
           supervised, replay_of, created_by, created_at, updated_at, claimed_at, started_at, completed_at, deleted_at
    from queues.task_runs;

create view queues.dead_letter_redacted as
    select id, task_type, queue_name, failure_kind, attempt_count, max_attempts, created_by, created_at, completed_at
    from queues.task_runs where status = 'FAILED' and deleted_at is null and not supervised;

create view queues.events_redacted as
    select id, task_id, event, claim_no, attempt, substring(worker_id from '^(.*)/[^/]*$') as worker, created_at
    from queues.task_events;

create view queues.errors_redacted as
    select id, task_id, claim_no, source, function_name, created_at from queues.error;

create view queues.workers_redacted as
    select substring(id from '^(.*)/[^/]*$') as worker, hostname, pid, version, queues, prefixes, task_types, takes_unknown,
           pool_size, started_at, last_heartbeat
    from queues.workers;

-- What has ended well isn't counted: no index finds it.
create view queues.queues_redacted as
    select queue_name, coalesce(s.paused, false) as paused, coalesce(s.audit, 'unusual') as audit,
           coalesce(o.ready, 0) as ready, coalesce(o.later, 0) as later, coalesce(o.waiting, 0) as waiting,
           coalesce(o.running, 0) as running, coalesce(f.failed, 0) as failed, o.oldest_ready
    from (
        select t.queue_name,
               count(*) filter (where t.status <> 'RUNNING' and t.waiting_for = 0 and t.run_after <= now()) as ready,
               count(*) filter (where t.status <> 'RUNNING' and t.waiting_for = 0 and t.run_after > now()) as later,
               count(*) filter (where t.waiting_for > 0) as waiting,
               count(*) filter (where t.status = 'RUNNING') as running,
               min(t.run_after) filter (where t.status <> 'RUNNING' and t.waiting_for = 0 and t.run_after <= now()) as oldest_ready
        from queues.task_runs t
        where t.status in ('PENDING', 'RETRYING', 'RUNNING') and t.deleted_at is null group by t.queue_name
    ) o
    full join (
        select t.queue_name, count(*) as failed from queues.task_runs t
        where t.status = 'FAILED' and t.deleted_at is null group by t.queue_name
    ) f using (queue_name)
    full join queues.queue_settings s using (queue_name);
