"""Pauses, limits and a queue's settings, as the operator's login calls them."""

from __future__ import annotations

from reproq.db.line import Call, Rows
from reproq.queue.text import number


def pause_queue(queue_name: str, paused: bool) -> Call:
    """Answers paused or resumed."""
    return Call(b"select queues.pause_queue($1, $2)", (queue_name.encode(), b"t" if paused else b"f"), _word)


def pause_type(task_type: str, paused: bool) -> Call:
    """Answers paused or resumed."""
    return Call(b"select queues.pause_type($1, $2)", (task_type.encode(), b"t" if paused else b"f"), _word)


def put_limit(scope: str, name: str, concurrency: int | None, rate: float | None, burst: float | None) -> Call:
    """Answers limited or removed."""
    params = (
        scope.encode(),
        name.encode(),
        None if concurrency is None else number(concurrency),
        None if rate is None else repr(rate).encode(),
        None if burst is None else repr(burst).encode(),
    )
    return Call(b"select queues.put_limit($1, $2, $3, $4, $5)", params, _word)


def audit_queue(queue_name: str, audit: str) -> Call:
    """Answers all or unusual."""
    return Call(b"select queues.audit_queue($1, $2)", (queue_name.encode(), audit.encode()), _word)


def route_dead_letters(queue_name: str, dead_letter_type: str | None) -> Call:
    """Answers routed or removed."""
    target = None if dead_letter_type is None else dead_letter_type.encode()
    return Call(b"select queues.route_dead_letters($1, $2)", (queue_name.encode(), target), _word)


def _word(rows: Rows) -> str:
    return (rows[0][0] or b"").decode()
