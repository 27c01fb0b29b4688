"""Outcomes on their way to the database, gathered for some milliseconds.

Nothing is dropped before the database has answered for it: a finish whose answer was lost goes out again as it was, one
that the database refuses for its values goes out one outcome at a time, and the culprit as a failure of its task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg

from reproq.db.errors import first_line
from reproq.log import Event, say
from reproq.models.envelope import Outcome
from reproq.models.execution import Execution
from reproq.models.states import FailureKind
from reproq.queue import lease as sql
from reproq.runner.desk import Desk, Errand

if TYPE_CHECKING:
    from reproq.runner.meter import Meter

_GATHER_S = 0.02
_FEW, _GATHER_FEW_S = 20, 0.04  # a statement of two outcomes costs nearly what one of twenty does
_MOST = 500
_MOST_BYTES = 16 << 20  # a statement of a gigabyte would be refused for ever

Ended = tuple[Execution, Outcome]


class Finishes:
    def __init__(self, desk: Desk, worker_id: str, ended: Callable[[Execution, Outcome, str], None]) -> None:
        self._desk = desk
        self._worker_id = worker_id.encode()
        self._ended = ended
        self._gathered: list[Ended] = []
        self._since = 0.0
        self._under_way = 0
        self.weight = 0  # bytes of answers that the database hasn't got yet
        self.repeated = 0
        self.stale = 0  # refused: the task was no longer ours
        self.meter: Meter | None = None

    @property
    def pending(self) -> int:
        return len(self._gathered) + self._under_way

    def add(self, execution: Execution, outcome: Outcome) -> None:
        execution.over = True
        if not self._gathered:
            self._since = time.monotonic()
        self._gathered.append((execution, outcome))
        self.weight += execution.weight

    def turn(self, now: float, hurry: bool) -> float | None:
        """Sends what is due; answers when to be asked again. `hurry`: nothing else is coming, don't gather."""
        if not self._gathered or self._under_way:
            return None
        due = self._since + (_GATHER_S if len(self._gathered) >= _FEW else _GATHER_FEW_S)
        if hurry or now >= due or len(self._gathered) >= _MOST:
            most = _MOST if self.weight <= _MOST_BYTES else self._fitting()
            batch, self._gathered = self._gathered[:most], self._gathered[most:]
            self._since = now
            self._send(batch)
            return None
        return due

    def _fitting(self) -> int:
        """How many go into one statement: one at least."""
        together = 0
        for count, (execution, _outcome) in enumerate(self._gathered[:_MOST]):
            together += execution.weight
            if together > _MOST_BYTES and count:
                return count
        return _MOST

    def _send(self, batch: list[Ended]) -> None:
        self._under_way += len(batch)
        call = sql.finish(self._worker_id, [outcome for _, outcome in batch])
        self._desk.send(
            Errand(call, lambda answers: self._answered(batch, answers), refused=lambda exc: self._refused(batch, exc))
        )

    def _answered(self, batch: list[Ended], answers: sql.Answers) -> None:
        self._under_way -= len(batch)
        if self.meter is not None:
            self.meter.ended(batch, answers)
        for execution, outcome in batch:
            self.weight -= execution.weight
            answer = answers.get((execution.id, execution.claim_no), "lost")
            if answer == "already":
                self.repeated += 1
                say(Event.FINISH_REPEATED, "the outcome had been recorded before", logging.INFO, task_id=execution.id)
            elif answer == "lost":
                self.stale += 1
            self._ended(execution, outcome, answer)

    def _refused(self, batch: list[Ended], exc: psycopg.Error) -> None:
        self._under_way -= len(batch)
        if len(batch) > 1:
            for one in batch:
                self._send([one])
            return
        execution, outcome = batch[0]
        reason = f"the database refused its result: {first_line(exc)}"
        say(Event.BAD_ENVELOPE, reason, logging.WARNING, task_id=execution.id, sqlstate=exc.sqlstate)
        if outcome.get("kind") == FailureKind.BAD_ENVELOPE:
            self.weight -= execution.weight
            self._ended(execution, outcome, "lost")  # even that is refused: its lease will end it
            return
        plain: Outcome = {"id": execution.id, "claim_no": execution.claim_no, "success": False}
        self._send([(execution, plain | {"kind": FailureKind.BAD_ENVELOPE, "error": reason})])
