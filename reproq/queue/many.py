"""Orders for many tasks, chosen by a filter, in batches; and what an operator asks of one task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from reproq.db.line import Call, Rows
from reproq.queue.text import number, seconds


@dataclass(frozen=True, slots=True)
class Filter:
    """None fits everything."""

    type_prefix: str | None = None
    queue_name: str | None = None
    status: str | None = None
    older_than_s: float | None = None
    failure_kind: str | None = None

    @property
    def params(self) -> tuple[bytes | None, ...]:
        age = None if self.older_than_s is None else seconds(self.older_than_s)
        return (_text(self.type_prefix), _text(self.queue_name), _text(self.status), age, _text(self.failure_kind))


def count_chosen(action: str, chosen: Filter) -> Call:
    """Answers (how many, the highest of their ids)."""
    sql = b"select tasks, upto_id from queues.count_chosen($1, $2, $3, $4, $5, $6)"
    return Call(sql, (action.encode(), *chosen.params), lambda rows: (int(rows[0][0] or 0), int(rows[0][1] or 0)))


def cancel_many(chosen: Filter, reason: str, after_id: int, upto_id: int, batch: int) -> Call:
    """Answers (the last id, or None: there was none; how many got which answer of cancel)."""
    sql = b"select last_id, answers from queues.cancel_many($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    return Call(sql, (*chosen.params, reason.encode(), *map(number, (after_id, upto_id, batch))), _batch)


def replay_many(chosen: Filter, after_id: int, upto_id: int, batch: int) -> Call:
    """Answers as cancel_many, with the answers of replay."""
    sql = b"select last_id, answers from queues.replay_many($1, $2, $3, $4, $5, $6, $7, $8)"
    return Call(sql, (*chosen.params, *map(number, (after_id, upto_id, batch))), _batch)


def replay_as_new(task_id: int) -> Call:
    """Answers the new task's id, or None: no such task."""
    return Call(
        b"select queues.replay_as_new($1)", (number(task_id),), lambda rows: int(rows[0][0]) if rows[0][0] else None
    )


def task_life(task_id: int) -> Call:
    """Answers a document, or None: no such task."""
    return Call(b"select queues.task_life($1)", (number(task_id),), _document)


def _batch(rows: Rows) -> tuple[int | None, dict[str, int]]:
    last, answers = rows[0]
    return (None if last is None else int(last)), orjson.loads(answers or b"{}")


def _document(rows: Rows) -> dict[str, Any] | None:
    return None if rows[0][0] is None else orjson.loads(rows[0][0])


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()
