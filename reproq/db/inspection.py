"""What operators ask: who is this login, what do the tasks do. Reads only."""

from typing import Any

from psycopg.rows import dict_row

from reproq.db.connect import Connection
from reproq.db.migration.roles import installed_owner, may_become

_NEWEST = """
    select id, task_type, queue_name, status::text, attempt_count as attempts, failure_kind, last_error, created_at
    from queues.task_runs
    where deleted_at is null and starts_with(task_type, %(prefix)s)
      and (%(status)s::text is null or status::text = %(status)s)
      and (%(queue)s::text is null or queue_name = %(queue)s)
    order by id desc limit %(limit)s
"""
_STATES = """
    select id, task_type, status::text, attempt_count, max_attempts, failure_kind, last_error, result_json,
           leased_until is not null as leased, started_at is not null as started,
           extract(epoch from coalesce(completed_at, clock_timestamp()) - created_at)::float8 as took_s
    from queues.task_runs where id = any(%s) order by id
"""
_FAILURES = """
    select task_id, attempt, detail from queues.task_events
    where task_id = any(%s) and event in ('retried', 'failed', 'lease_expired') order by id
"""

# From queue to queue by the claim index; nobody waits for a count of millions.
_QUEUES = """
    with named as (
        select q as name from internal.queues_with_work(null) q
        union select distinct t.queue_name::text from queues.task_runs t where t.leased_until is not null
        union select s.queue_name::text from queues.queue_settings s
    )
    select n.name as queue, coalesce(s.paused, false) as paused, coalesce(s.audit, 'unusual') as audit,
           s.dead_letter_type::text as dead_letters_to,
           (select count(*) from (select from queues.task_runs t
                where t.queue_name = n.name and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0
                  and t.deleted_at is null and t.run_after <= now() limit 10000) x) as due,
           (select count(*) from (select from queues.task_runs t
                where t.queue_name = n.name and t.status in ('PENDING', 'RETRYING') and t.deleted_at is null
                  and (t.waiting_for > 0 or t.run_after > now()) limit 10000) x) as later,
           (select count(*) from queues.task_runs t
            where t.leased_until is not null and t.queue_name = n.name) as running,
           (select round(extract(epoch from now() - min(l.run_after)))::bigint
            from internal.lanes_between(n.name, '', '~') l where l.run_after <= now()) as oldest_waits_s
    from named n left join queues.queue_settings s on s.queue_name = n.name order by 1
"""
_LIMITS = """
    select l.scope, l.name, l.concurrency as at_once, l.rate, l.burst,
           case when l.rate is not null then round(internal.refill(l)::numeric, 1)::float8 end as tokens
    from queues.limits l order by 1, 2
"""
# What each holds is found by the index of the leases, once for all of them.
_WORKERS = """
    with held as (
        select t.worker_id, jsonb_agg(jsonb_build_object(
                   'id', t.id, 'task_type', t.task_type, 'queue_name', t.queue_name, 'attempt', t.attempt_count,
                   'status', t.status, 'since', t.claimed_at) order by t.id) as tasks
        from queues.task_runs t where t.leased_until is not null group by t.worker_id
    )
    select regexp_replace(w.id, '/[^/]*$', '') as worker,
           exists (select from queues.leader l where l.worker_id = w.id and l.until > clock_timestamp()) as leads,
           w.hostname, w.pid, w.version, w.queues, w.prefixes, w.pool_size as pool, w.started_at,
           round(extract(epoch from clock_timestamp() - w.last_heartbeat)::numeric, 1)::float8 as heartbeat_age_s,
           coalesce(h.tasks, '[]') as holds
    from queues.workers w left join held h on h.worker_id = w.id order by w.started_at, w.id
"""
_DEAD = """
    where starts_with(task_type, %(prefix)s) and (%(queue)s::text is null or queue_name = %(queue)s)
      and (%(kind)s::text is null or failure_kind = %(kind)s)
"""
_DEAD_COUNTS = f"""
    select task_type::text, failure_kind, count(*) as tasks, min(completed_at) as first, max(completed_at) as last
    from queues.dead_letter {_DEAD} group by 1, 2 order by 3 desc, 1, 2
"""
_DEAD_NEWEST = f"""
    select id, task_type::text, queue_name::text, failure_kind, last_error, attempt_count as attempts, completed_at
    from queues.dead_letter {_DEAD} order by id desc limit %(limit)s
"""


def might_of_login(conn: Connection) -> str | None:
    """Say what makes this login too mighty for a worker, or None."""
    if conn.info.parameter_status("is_superuser") == "on":
        return "is a superuser"
    owner = installed_owner(conn)
    if owner == conn.info.user:
        return "owns Reproq's schema"
    return f"may become {owner}, who owns Reproq's schema" if owner and may_become(conn, owner) else None


def newest_tasks(
    conn: Connection, *, status: str | None, prefix: str, queue: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return the newest tasks first."""
    asked = {"status": status, "prefix": prefix, "queue": queue, "limit": limit}
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_NEWEST, asked).fetchall()


def states_of(conn: Connection, ids: list[int]) -> list[dict[str, Any]]:
    """Return how these tasks stand."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_STATES, [ids]).fetchall()


def failures_of(conn: Connection, ids: list[int]) -> list[dict[str, Any]]:
    """Return the failed attempts of these tasks, oldest first."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_FAILURES, [ids]).fetchall()


def queues(conn: Connection) -> list[dict[str, Any]]:
    """Return each queue with what waits and runs in it."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_QUEUES).fetchall()


def limits(conn: Connection) -> list[dict[str, Any]]:
    """Return all limits, and what is in their buckets."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_LIMITS).fetchall()


def workers(conn: Connection) -> list[dict[str, Any]]:
    """Return each worker that has reported, and the tasks that it holds now."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_WORKERS).fetchall()


def dead_counts(conn: Connection, *, prefix: str, queue: str | None, kind: str | None) -> list[dict[str, Any]]:
    """Return how many tasks have failed for good, by type and kind."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_DEAD_COUNTS, {"prefix": prefix, "queue": queue, "kind": kind}).fetchall()


def newest_dead(
    conn: Connection, *, prefix: str, queue: str | None, kind: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return those that have failed for good, the newest first."""
    asked = {"prefix": prefix, "queue": queue, "kind": kind, "limit": limit}
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_DEAD_NEWEST, asked).fetchall()
