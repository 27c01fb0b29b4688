"""queues.overview: everything at one look, bounded."""

from __future__ import annotations

from typing import Any

import orjson

from reproq.db.line import Call, Rows
from reproq.queue.text import number


def overview(after_id: int | None) -> Call:
    """Queues, workers, and how many tasks came after that id."""
    params = (None if after_id is None else number(after_id),)
    return Call(b"select queues.overview($1)", params, _document)


def _document(rows: Rows) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(rows[0][0] or b"{}")
    return document


def names(kind: str, start: str) -> Call:
    """Names that start so, of queues, types or schedules."""
    sql = b"select queues.names($1, $2)"
    return Call(sql, (kind.encode(), start.encode()), lambda rows: [(row[0] or b"").decode() for row in rows])
