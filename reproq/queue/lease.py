"""queues.start, heartbeat, finish and give_back: every write to a claimed row names id, worker_id and claim_no."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from reproq.db.line import Call, Rows
from reproq.models.envelope import Outcome
from reproq.models.execution import Execution
from reproq.queue.text import flags, numbers, seconds

Answers = dict[tuple[int, int], str]
"""(id, claim_no) -> kept, busy, cancelled, lost; for a finish done, already, cancelled, lost."""


def start(worker_id: bytes, executions: Sequence[Execution]) -> Call:
    return Call(
        b"select id, claim_no, answer from queues.start($1, $2, $3)", (worker_id, *_fences(executions)), _answers
    )


def heartbeat(worker_id: bytes, executions: Sequence[Execution], lease_s: float) -> Call:
    return Call(
        b"select id, claim_no, answer from queues.heartbeat($1, $2, $3, $4, $5)",
        (worker_id, *_fences(executions), seconds(lease_s), flags(e.begun for e in executions)),
        _answers,
    )


def finish(worker_id: bytes, outcomes: Sequence[Outcome]) -> Call:
    sql = b"select id, claim_no, answer from queues.finish($1, $2)"
    return Call(sql, (worker_id, orjson.dumps(outcomes)), _answers)


def give_back(worker_id: bytes, executions: Sequence[Execution]) -> Call:
    return Call(
        b"select id, claim_no, answer from queues.give_back($1, $2, $3, $4)",
        (worker_id, *_fences(executions), flags(e.begun for e in executions)),
        _answers,
    )


def _fences(executions: Sequence[Execution]) -> tuple[bytes, bytes]:
    return numbers(e.id for e in executions), numbers(e.claim_no for e in executions)


def _answers(rows: Rows) -> Answers:
    return {(int(row[0] or 0), int(row[1] or 0)): (row[2] or b"").decode() for row in rows}


def recall(worker_id: bytes, known: Sequence[Execution]) -> Call:
    """Gives back what is leased to this worker without its knowledge: a claim's answer was lost."""
    return Call(b"select queues.recall($1, $2, $3)", (worker_id, *_fences(known)), lambda rows: int(rows[0][0] or 0))
