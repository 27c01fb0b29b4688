"""queues.watch_tasks and queues.enqueue_once, as the gateway asks. Documents stay the text that the database wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reproq.db.line import Call, Rows
from reproq.queue.text import number, numbers

_ENQUEUE_ONCE = (
    b"select id, is_new, same_spec from queues.enqueue_once(task_type => $1, payload => $2, queue_name => $3,"
    b" scheduled_at => coalesce($4, clock_timestamp() + make_interval(secs => coalesce($5::float8, 0))),"
    b" priority => $6, idempotency_key => $7, max_attempts => $8, unique_among => $9,"
    b" timeout => make_interval(secs => $10), after => $11, after_policy => $12, limit_key => $13, trace => $14)"
)
_WATCH = (
    b"select w.*, pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())"
    b" from (select) one left join queues.watch_tasks($1, $2, $3, $4) w on true"
)


@dataclass(frozen=True, slots=True)
class Sight:
    """A task or process as it stands. No mark: it isn't there, or isn't ours. No document: it is too large for a look
    that others share."""

    id: int
    mark: str | None
    is_over: bool = False
    task_type: str = ""
    queue_name: str = ""
    document: bytes | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """The tasks with another mark, and since when the next look has to ask: this one saw what was written before."""

    sights: list[Sight]
    since: bytes


@dataclass(frozen=True, slots=True)
class Enqueued:
    id: int
    is_new: bool
    same_spec: bool


@dataclass(frozen=True, slots=True)
class NewTask:
    """Arguments of queues.enqueue_once; `payload` is JSON text."""

    task_type: str
    payload: bytes = b"{}"
    queue_name: str = "default"
    scheduled_at: str | None = None
    delay: float | None = None
    priority: int = 0
    idempotency_key: str | None = None
    max_attempts: int | None = None
    unique_among: str | None = None
    timeout: float | None = None
    after: Sequence[int] | None = None
    after_policy: str = "succeeded"
    limit_key: str | None = None
    trace: str | None = None


def see_task(task_id: int) -> Call:
    """Answers a Sight, as a list of one."""
    return Call(b"select * from queues.watch_tasks($1, '{null}')", (numbers([task_id]),), _sights)


def watch_tasks(ids: bytes, marks: bytes, max_bytes: int, since: bytes | None) -> Call:
    """Answers a Look. `since` is that of the look before. Both arrays as text: between two looks they rarely change."""
    return Call(_WATCH, (ids, marks, number(max_bytes), since), _look)


def process_status(function: str, ids: Sequence[int]) -> Call:
    """Answers (id, document or None) of each; `function` is a quoted name out of the catalog."""
    sql = f"select i, {function}(i)::text from pg_catalog.unnest($1::bigint[]) i".encode()  # noqa: S608
    return Call(sql, (numbers(ids),), lambda rows: [(int(row[0] or 0), row[1]) for row in rows])


def enqueue_once(task: NewTask) -> Call:
    params = (
        task.task_type.encode(), task.payload, task.queue_name.encode(), _text(task.scheduled_at), _float(task.delay),
        number(task.priority), _text(task.idempotency_key), _integer(task.max_attempts), _text(task.unique_among),
        _float(task.timeout), None if task.after is None else numbers(task.after), task.after_policy.encode(),
        _text(task.limit_key), _text(task.trace),
    )  # fmt: skip
    return Call(_ENQUEUE_ONCE, params, _enqueued)


def _look(rows: Rows) -> Look:
    return Look([_sight(row[:-1]) for row in rows if row[0] is not None], rows[0][-1] or b"")


def _sights(rows: Rows) -> list[Sight]:
    return [_sight(row) for row in rows]


def _sight(row: list[bytes | None]) -> Sight:
    task_id, mark, is_over, task_type, queue_name, document = row
    if mark is None:
        return Sight(int(task_id or 0), None)
    kind, queue = (task_type or b"").decode(), (queue_name or b"").decode()
    return Sight(int(task_id or 0), mark.decode(), is_over == b"t", kind, queue, document)


def _enqueued(rows: Rows) -> Enqueued:
    task_id, is_new, same_spec = rows[0]
    return Enqueued(int(task_id or 0), is_new == b"t", same_spec == b"t")


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _integer(value: int | None) -> bytes | None:
    return None if value is None else number(value)


def _float(value: float | None) -> bytes | None:
    return None if value is None else repr(value).encode()
