"""queues.claim, queues.start and the marks of a worker that sleeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from reproq.db.line import Call, Rows
from reproq.models.execution import Execution
from reproq.queue.text import array, number, seconds

_CLAIM = (
    b"select id, claim_no, task_type, queue_name, payload_json, attempt_count, max_attempts, timeout_s,"
    b" idempotency_key, case when id is null then current_setting('reproq.next_hints')::jsonb else next_hints end%s"
    b" from (values (1)) answer left join queues.claim($1, $2, $3, $4, $5, $6, $7, $8) on true"
)
_WAITED = b", greatest(0, extract(epoch from clock_timestamp() - greatest(run_after, created_at)))::real"
_TRACE = b", trace"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a worker serves, as the database wants it."""

    worker_id: bytes
    queues: bytes | None
    prefixes: bytes | None

    @classmethod
    def of(cls, worker_id: str, queues: tuple[str, ...], prefixes: tuple[str, ...]) -> Scope:
        return cls(worker_id.encode(), array(queues or None), array(prefixes or None))


@dataclass(frozen=True, slots=True)
class Claimed:
    executions: list[Execution]
    hints: bytes | None


def claim(
    scope: Scope,
    lease_s: float,
    max_tasks: int,
    hints: bytes | None,
    pools: list[dict[str, Any]],
    max_bytes: int,
    *,
    look: bool = False,
    measured: bool = False,
    traced: bool = False,
) -> Call:
    """`hints` = what the last claim answered, None looks from the head; `look` = somebody enqueued. How long a task has
    waited, and its trace, cost every task a tenth of a microsecond each: only who uses them asks."""
    if look and hints is not None:
        hints = hints.removesuffix(b"}") + b', "look": true}'
    params = (
        scope.worker_id, scope.queues, scope.prefixes, seconds(lease_s), number(max_tasks), hints, orjson.dumps(pools),
        number(max_bytes),
    )  # fmt: skip
    sql = _CLAIM % ((_WAITED if measured else b"") + (_TRACE if traced else b""))
    return Call(sql, params, lambda rows: _claimed(rows, measured, traced))


def _claimed(rows: Rows, measured: bool, traced: bool) -> Claimed:
    hints = rows[-1][9]
    if rows[-1][0] is None:  # nothing but what the claim has learned
        return Claimed([], hints)
    executions = [_execution(row) for row in rows]
    if measured:
        for execution, row in zip(executions, rows, strict=True):
            execution.waited_s = float(row[10] or 0)
    if traced:
        for execution, row in zip(executions, rows, strict=True):
            execution.trace = row[-1].decode() if row[-1] is not None else None
    return Claimed(executions, hints)


def _execution(row: list[Any]) -> Execution:
    timeout, key = row[7], row[8]
    return Execution(
        int(row[0]), int(row[1]), row[2].decode(), row[3].decode(), row[4].decode(), int(row[5]), int(row[6]),
        float(timeout) if timeout is not None else None, key.decode() if key is not None else None,
    )  # fmt: skip


def lie_down(scope: Scope, expiry_s: float) -> Call:
    """Answers the seconds until the next task falls due, None = none is scheduled."""
    sql = b"select extract(epoch from queues.lie_down($1, $2, $3, $4))"
    return Call(sql, (scope.worker_id, scope.queues, scope.prefixes, seconds(expiry_s)), _optional_float)


def nothing_left(scope: Scope, pools: list[dict[str, Any]]) -> Call:
    sql = b"select queues.nothing_left($1, $2, $3)"
    return Call(sql, (scope.queues, scope.prefixes, orjson.dumps(pools)), lambda rows: rows[0][0] == b"t")


def _optional_float(rows: Rows) -> float | None:
    value = rows[0][0]
    return None if value is None else float(value)
