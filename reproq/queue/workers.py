"""Who works: rows of queues.workers, and what their children can do."""

from __future__ import annotations

from typing import Any

import orjson

from reproq.db.line import Call, Rows
from reproq.queue.claim import Scope
from reproq.queue.text import number, seconds


def register(
    scope: Scope, hostname: str, pid: int, version: str, pool_size: int, types: dict[str, Any], takes_unknown: bool
) -> Call:
    params = (
        scope.worker_id, hostname.encode(), number(pid), version.encode(), scope.queues, scope.prefixes,
        number(pool_size), orjson.dumps(types), b"t" if takes_unknown else b"f",
    )  # fmt: skip
    return Call(b"select queues.register_worker($1, $2, $3, $4, $5, $6, $7, $8, $9)", params, _nothing)


def unregister(worker_id: bytes) -> Call:
    return Call(b"select queues.unregister_worker($1)", (worker_id,), _nothing)


def unserved(worker_timeout_s: float) -> Call:
    """Queues and types with ready tasks that no live worker serves: (queue, type, seconds)."""
    sql = b"select queue_name, task_type, extract(epoch from waiting) from queues.unserved($1)"
    return Call(
        sql, (seconds(worker_timeout_s),), lambda rows: [(_text(r[0]), _text(r[1]), float(r[2] or 0)) for r in rows]
    )


def listen() -> Call:
    return Call(b"listen reproq", (), _nothing)


def end_session(name: str) -> Call:
    """Ends another session of the same login: that of a child that was killed. By name: behind a pooler a process
    number would be somebody else's."""
    sql = (
        b"select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity"
        b" where application_name = $1 and usename = current_user"
    )
    return Call(sql, (name.encode(),), _nothing)


def _text(value: bytes | None) -> str:
    return (value or b"").decode()


def _nothing(rows: Rows) -> None:
    return None


def serves_code(version: int) -> Call:
    """Answers whether the schema serves a program of this version."""
    return Call(b"select queues.serves_code($1)", (number(version),), lambda rows: rows[0][0] == b"t")
