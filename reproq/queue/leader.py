"""Which worker keeps house, and what it does."""

from __future__ import annotations

from typing import Any

import orjson

from reproq.db.line import Call, Rows
from reproq.queue.text import number, seconds


def lead(worker_id: bytes, lease_s: float) -> Call:
    """(term of this worker as leader, or None: another one leads; how long the row says so)."""
    return Call(b"select term, left_s from queues.lead($1, $2)", (worker_id, seconds(lease_s)), _leadership)


def keep_house(term: int) -> Call:
    """What was done, by name; None: the term is over."""
    return Call(b"select queues.keep_house($1)", (number(term),), _done)


def _leadership(rows: Rows) -> tuple[int | None, float]:
    term, left = rows[0]
    return (None if term is None else int(term)), float(left or 0)


def _done(rows: Rows) -> dict[str, Any] | None:
    return None if rows[0][0] is None else orjson.loads(rows[0][0])
