"""Schedules: what an application or an operator does with them."""

from __future__ import annotations

from typing import Any

import orjson

from reproq.db.line import Call, Rows
from reproq.queue.text import number


def put_schedule(
    name: str,
    task_type: str,
    payload: str,
    *,
    cron: str | None,
    every: str | None,
    time_zone: str,
    queue_name: str,
    priority: int,
    max_attempts: int | None,
    catch_up: str,
) -> Call:
    """Answers the next slot, as text."""
    params = (
        name.encode(), task_type.encode(), payload.encode(), _text(cron), _text(every), time_zone.encode(),
        queue_name.encode(), number(priority), None if max_attempts is None else number(max_attempts),
        catch_up.encode(),
    )  # fmt: skip
    return Call(b"select queues.put_schedule($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", params, _word)


def drop_schedule(name: str) -> Call:
    """Answers dropped or unknown."""
    return Call(b"select queues.drop_schedule($1)", (name.encode(),), _word)


def enable_schedule(name: str, enabled: bool) -> Call:
    """Answers enabled, paused or unknown."""
    return Call(b"select queues.enable_schedule($1, $2)", (name.encode(), b"t" if enabled else b"f"), _word)


def run_schedule(name: str) -> Call:
    """Answers the task's id, or None: there is no such schedule."""
    return Call(
        b"select queues.run_schedule($1)", (name.encode(),), lambda rows: int(rows[0][0]) if rows[0][0] else None
    )


def schedule_slots(name: str, count: int) -> Call:
    """Answers the next slots, as texts."""
    params = (name.encode(), number(count))
    return Call(
        b"select queues.schedule_slots($1, $2)", params, lambda rows: [(row[0] or b"").decode() for row in rows]
    )


def list_schedules() -> Call:
    return Call(b"select pg_catalog.to_jsonb(s) from queues.list_schedules() s", (), _documents)


def _documents(rows: Rows) -> list[dict[str, Any]]:
    return [orjson.loads(row[0] or b"{}") for row in rows]


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _word(rows: Rows) -> str:
    return (rows[0][0] or b"").decode()
