"""What operators ask: who is this login, what do the tasks do. Reads only."""

from typing import Any

from psycopg.rows import dict_row

from reproq.db.connect import Connection
from reproq.db.migration.roles import as_owner_if_possible, installed_owner, may_become

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
    """Return the newest tasks first, as the owner sees them where the login may become it."""
    asked = {"status": status, "prefix": prefix, "queue": queue, "limit": limit}
    with as_owner_if_possible(conn), conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_NEWEST, asked).fetchall()


def states_of(conn: Connection, ids: list[int]) -> list[dict[str, Any]]:
    """Return how these tasks stand."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_STATES, [ids]).fetchall()


def failures_of(conn: Connection, ids: list[int]) -> list[dict[str, Any]]:
    """Return the failed attempts of these tasks, oldest first."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_FAILURES, [ids]).fetchall()
