"""queues.enqueue, what an application or an operator does with a task, and the calls of workers in other languages."""

from __future__ import annotations

from collections.abc import Sequence

from reproq.db.line import Call, Rows
from reproq.queue.text import array, number, seconds

_ENQUEUE = (
    b"(task_type => $1, %s => $2, scheduled_at => coalesce($3, now()), queue_name => $4, priority => $5,"
    b" max_attempts => $6, unique_among => $7, timeout => $8, %s => $9)"
)


def enqueue(
    task_type: str,
    payload: str = "{}",
    *,
    scheduled_at: str | None = None,
    queue_name: str = "default",
    priority: int = 0,
    max_attempts: int | None = None,
    unique_among: str | None = None,
    timeout_s: float | None = None,
    idempotency_key: str | None = None,
) -> Call:
    """Answers the id. `payload` is JSON text."""
    shared = _shared(scheduled_at, queue_name, priority, max_attempts, unique_among, timeout_s)
    sql = b"select queues.enqueue" + _ENQUEUE % (b"payload", b"idempotency_key")
    return Call(sql, (task_type.encode(), payload.encode(), *shared, _text(idempotency_key)), _number)


def enqueue_many(
    task_type: str,
    payloads: Sequence[str],
    *,
    scheduled_at: str | None = None,
    queue_name: str = "default",
    priority: int = 0,
    max_attempts: int | None = None,
    unique_among: str | None = None,
    timeout_s: float | None = None,
    idempotency_keys: Sequence[str] | None = None,
) -> Call:
    """Answers the ids, in the order of the payloads."""
    shared = _shared(scheduled_at, queue_name, priority, max_attempts, unique_among, timeout_s)
    sql = b"select pg_catalog.unnest(queues.enqueue_many" + _ENQUEUE % (b"payloads", b"idempotency_keys") + b")"
    return Call(sql, (task_type.encode(), array(payloads), *shared, array(idempotency_keys)), _numbers)


def cancel(task_id: int, reason: str | None = None) -> Call:
    """Answers cancelled, stopping, too_late or unknown."""
    return Call(b"select queues.cancel($1, $2)", (number(task_id), _text(reason)), _word)


def soft_delete(task_id: int, reason: str) -> Call:
    """Answers deleted or unknown."""
    return Call(b"select queues.soft_delete($1, $2)", (number(task_id), reason.encode()), _word)


def replay(task_id: int, attempts: int | None = None) -> Call:
    """Answers replayed, not_ended, succeeded or unknown."""
    more = None if attempts is None else number(attempts)
    return Call(b"select queues.replay($1, $2)", (number(task_id), more), _word)


def dequeue_next_available_task(
    worker_name: str | None = None, queue_names: Sequence[str] | None = None, lease_s: float = 30
) -> Call:
    """Answers (id, worker_id, claim_no, task_type, payload text, attempt), or None."""
    sql = (
        b"select id, worker_id, claim_no, task_type, payload, attempt"
        b" from queues.dequeue_next_available_task($1, $2, $3)"
    )
    return Call(sql, (_text(worker_name), array(queue_names), seconds(lease_s)), _dequeued)


def complete_task(task_id: int, worker_id: str, claim_no: int, result: str | None = None) -> Call:
    """Answers done, already, cancelled or lost. `result` is JSON text."""
    params = (number(task_id), worker_id.encode(), number(claim_no), _text(result))
    return Call(b"select queues.complete_task($1, $2, $3, $4)", params, _word)


def fail_task(task_id: int, worker_id: str, claim_no: int, error: str, *, retry: bool = True) -> Call:
    """Answers done, already, cancelled or lost."""
    params = (number(task_id), worker_id.encode(), number(claim_no), error.encode(), b"t" if retry else b"f")
    return Call(b"select queues.fail_task($1, $2, $3, $4, $5)", params, _word)


def _shared(
    scheduled_at: str | None,
    queue_name: str,
    priority: int,
    max_attempts: int | None,
    unique_among: str | None,
    timeout_s: float | None,
) -> tuple[bytes | None, ...]:
    return (
        _text(scheduled_at),
        queue_name.encode(),
        number(priority),
        None if max_attempts is None else number(max_attempts),
        _text(unique_among),
        None if timeout_s is None else seconds(timeout_s),
    )


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _word(rows: Rows) -> str:
    return (rows[0][0] or b"").decode()


def _number(rows: Rows) -> int:
    return int(rows[0][0] or 0)


def _numbers(rows: Rows) -> list[int]:
    return [int(row[0] or 0) for row in rows]


def _dequeued(rows: Rows) -> tuple[int, str, int, str, str, int] | None:
    if not rows:
        return None
    task_id, worker_id, claim_no, task_type, payload, attempt = (value or b"" for value in rows[0])
    return int(task_id), worker_id.decode(), int(claim_no), task_type.decode(), payload.decode(), int(attempt)
