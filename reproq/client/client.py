"""Client: enqueue, wait, ask, cancel."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, Self, Unpack

from reproq.client import foreign
from reproq.client.connections import Connections
from reproq.client.errors import ClientError, ConnectionLost, UnknownTask
from reproq.client.options import (
    MANY,
    ManyOptions,
    Options,
    Seconds,
    arguments,
    enqueue_many_sql,
    enqueue_sql,
    plain_text,
    seconds,
    task_type,
)
from reproq.client.payload import encode, encode_all, encode_data
from reproq.client.status import STATUS, TaskStatus
from reproq.client.tracing import current_trace
from reproq.tasks import registry

SHORTEST_POLL, LONGEST_POLL = 0.005, 0.25
PATIENCE = 60.0  # how long result() without a time-out stands an unreachable database

Payload = Any  # an object as JSON: dict, pydantic model, dataclass; None is {}
Data = Any  # any JSON; None: the event has no data
PUBLISH = "select queues.publish_event(%s::text, %s::text, %s::text::jsonb, %s::text::boolean)"


class Client:
    """Safe to share between threads. Connections open when needed and are kept; `with Client(dsn) as client` closes."""

    def __init__(self, dsn: str | None = None, *, name: str = "reproq client") -> None:
        self._connections = Connections(dsn or _from_environment(), name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._connections.close()

    def enqueue(self, task_type: str, payload: Payload = None, **options: Unpack[Options]) -> int:
        """Store one task and answer its id; it is committed when this returns."""
        sql, values = _enqueue(task_type, payload, options)
        repeatable = options.get("idempotency_key") is not None
        return int(self._text(sql, values, repeatable=repeatable))

    def enqueue_many(self, task_type: str, payloads: Iterable[Payload], **options: Unpack[ManyOptions]) -> list[int]:
        """Store many tasks of one type in one statement, all or none; answers their ids in order."""
        sql, values = _enqueue_many(task_type, payloads, options)
        return list(self._value(sql, values)) if values[1] else []

    @staticmethod
    def enqueue_in(connection: Any, task_type: str, payload: Payload = None, **options: Unpack[Options]) -> int:
        """Store one task inside your transaction: it exists if you commit, and doesn't if you roll back."""
        sql, values = _enqueue(task_type, payload, options)
        return int(foreign.first_value(connection, sql, values))

    @staticmethod
    def enqueue_many_in(
        connection: Any, task_type: str, payloads: Iterable[Payload], **options: Unpack[ManyOptions]
    ) -> list[int]:
        """Store many tasks of one type inside your transaction."""
        sql, values = _enqueue_many(task_type, payloads, options)
        return list(foreign.first_value(connection, sql, values)) if values[1] else []

    def publish_event(
        self, event_type: str, subject: str | None = None, data: Data = None, *, ordered: bool = True
    ) -> str:
        """Publish one event to every sink that wants its type; answers the id that receivers see."""
        return self._text(PUBLISH, _event(event_type, subject, data, ordered))

    @staticmethod
    def publish_event_in(
        connection: Any, event_type: str, subject: str | None = None, data: Data = None, *, ordered: bool = True
    ) -> str:
        """Publish one event inside your transaction: sinks get it if you commit, and never if you roll back.

        `ordered`: events of one subject reach each sink in the order of their commits, for which the writers of a
        subject wait for each other.
        """
        return str(foreign.first_value(connection, PUBLISH, _event(event_type, subject, data, ordered)))

    def result(self, task_id: int, timeout: Seconds | None = None) -> Any:
        """Wait until the task is over and answer its result.

        Raises TaskFailed, TaskCancelled, UnknownTask, or TimeoutError when `timeout` seconds are over first.
        """
        return self.wait(task_id, timeout).result()

    def wait(self, task_id: int, timeout: Seconds | None = None) -> TaskStatus:
        """Wait until the task is over, however it ends. Raises UnknownTask, and TimeoutError as result() does."""
        limit = None if timeout is None else time.monotonic() + seconds("timeout", timeout)
        return self._wait(task_id, limit)

    def status(self, task_id: int) -> TaskStatus:
        return self._status(task_id)

    def _status(self, task_id: int, until: float | None = None) -> TaskStatus:
        row = self._connections.row(STATUS, [_id(task_id)], repeatable=True, until=until)
        if row is None:
            raise UnknownTask(f"no task {task_id}", "it was never stored, was purged, or belongs to another login")
        return TaskStatus(*row)

    def cancel(self, task_id: int, reason: str = "") -> str:
        """Answers `cancelled`, `stopping` (its code is being stopped), `too_late` or `unknown`."""
        return str(self._value("select queues.cancel(%s::text::bigint, %s::text)", [_id(task_id), reason]))

    def delete(self, task_id: int, reason: str) -> str:
        """Soft delete: nobody claims it any more, and its idempotency key is free again."""
        return str(self._value("select queues.soft_delete(%s::text::bigint, %s::text)", [_id(task_id), reason]))

    def replay(self, task_id: int) -> str:
        """Open a task that is over once more: the same row, with as many attempts more as its type has."""
        return str(self._value("select queues.replay(%s::text::bigint)", [_id(task_id)]))

    def _text(self, sql: str, values: list[Any], *, repeatable: bool = False) -> str:
        text = self._connections.text(sql, values, repeatable=repeatable)
        if text is None:
            raise ClientError("the database answered nothing")
        return text

    def _value(self, sql: str, values: list[Any]) -> Any:
        row = self._connections.row(sql, values, repeatable=False)
        if row is None:
            raise ClientError("the database answered nothing")
        return row[0]

    def _wait(self, task_id: int, limit: float | None) -> TaskStatus:
        pause, heard = SHORTEST_POLL, time.monotonic()
        while True:
            seen = "unreachable database"
            try:
                status = self._status(task_id, time.monotonic() + PATIENCE if limit is None else limit)
                if status.is_over:
                    return status
                seen, heard = f"status {status.status}", time.monotonic()
            except ConnectionLost:
                if limit is None and time.monotonic() - heard > PATIENCE:
                    raise
            left = LONGEST_POLL if limit is None else limit - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"task {task_id} isn't over yet: {seen}")
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_POLL)


def _enqueue(name: str, payload: Payload, options: Options) -> tuple[str, list[Any]]:
    names, values = arguments(_with_trace(_with_attempts(name, options)))
    return enqueue_sql(names), [task_type(name), encode(payload), *values]


def _enqueue_many(name: str, payloads: Iterable[Payload], options: ManyOptions) -> tuple[str, list[Any]]:
    names, values = arguments(_with_trace(_with_attempts(name, options)), MANY)
    return enqueue_many_sql(names), [task_type(name), encode_all(payloads), *values]


def _event(event_type: str, subject: str | None, data: Data, ordered: bool) -> list[Any]:
    text = None if data is None else encode_data(data)
    return [plain_text("event type", event_type), subject and plain_text("subject", subject), text, str(bool(ordered))]


def _with_attempts(name: object, options: Mapping[str, object]) -> Mapping[str, object]:
    """A type that this process has registered brings its max_attempts along: no worker may have reported it yet."""
    known = registry.get(name) if isinstance(name, str) else None
    own = known.settings.get("max_attempts") if known is not None else None
    return options if own is None or options.get("max_attempts") is not None else {**options, "max_attempts": own}


def _with_trace(options: Mapping[str, object]) -> Mapping[str, object]:
    """An open span of OpenTelemetry comes along, unless the caller names a trace."""
    trace = current_trace() if options.get("trace") is None else None
    return options if trace is None else {**options, "trace": trace}


def _id(task_id: object) -> str:
    if isinstance(task_id, bool) or not isinstance(task_id, int) or not 0 < task_id < 2**63:
        raise UnknownTask(f"{task_id!r:.60} isn't a task id", "ids are whole numbers above 0")
    return str(task_id)


def _from_environment() -> str:
    dsn = os.environ.get("REPROQ_DATABASE_URL") or os.environ.get("DATABASE_URL")
    if not dsn:
        raise ClientError(
            "no database address",
            "write Client('postgresql://…') or set REPROQ_DATABASE_URL; inside a task the worker keeps its own back, "
            "so hand one over with --child-env",
        )
    return dsn
