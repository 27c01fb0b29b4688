"""What became of every execution that was claimed: recorded, given back, or dropped because its lease is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from reproq.log import Event, say
from reproq.models.envelope import Outcome
from reproq.models.execution import Execution
from reproq.models.states import FailureKind
from reproq.queue import lease as sql
from reproq.runner.crew import Station
from reproq.runner.desk import Desk, Errand
from reproq.runner.finishes import Finishes
from reproq.runner.leases import Leases


class Books:
    def __init__(self, desk: Desk, worker_id: str, leases: Leases, stations: Sequence[Station]) -> None:
        self._desk = desk
        self._worker_id = worker_id.encode()
        self._stations = stations
        self.leases = leases
        self.finishes = Finishes(desk, worker_id, self.finished)
        self.dropped = 0  # outcomes of tasks that were no longer ours
        self.given_back = 0
        self.retried: Callable[[], None] = lambda: None

    def record(self, execution: Execution, outcome: Outcome) -> None:
        """The outcome goes to the database, if the task is still ours."""
        if self.leases.holds(execution):
            self.finishes.add(execution, outcome)
        else:
            self.drop(execution, outcome)

    def end(self, execution: Execution, kind: FailureKind, error: str, **more: object) -> None:
        """A failure that no child reported."""
        self.record(execution, failure(execution, kind, error) | more)

    def end_cancelled(self, execution: Execution) -> None:
        self.end(execution, FailureKind.INTERRUPTED, "it was cancelled")

    def committed(self, execution: Execution, outcome: Outcome) -> None:
        """By the child itself, together with what the task wrote."""
        if self.finishes.meter is not None:
            self.finishes.meter.ended([(execution, outcome)], None)
        self.finished(execution, outcome, "done")

    def finished(self, execution: Execution, outcome: Outcome, answer: str) -> None:
        """What the database answered for it."""
        self.leases.drop(execution)
        if answer == "lost":
            self.drop(execution, outcome)
        elif answer == "done" and not outcome["success"]:
            _say_failure(execution, outcome)
            self.retried()

    def drop(self, execution: Execution, outcome: Outcome) -> None:
        execution.over = True
        self.dropped += 1
        self.leases.drop(execution)
        say(
            Event.RESULT_DROPPED,
            f"the lease of task {execution.id} is lost; its outcome is dropped",
            logging.WARNING,
            task_id=execution.id,
            claim_no=execution.claim_no,
            success=outcome.get("success"),
        )

    def forget(self, execution: Execution, why: str) -> None:
        """Claimed and never begun, and perhaps not ours any more: back it goes, if it still is."""
        say(Event.TASK_GIVEN_BACK, f"task {execution.id} goes back: {why}", task_id=execution.id)
        self.give_back([execution])

    def give_back(self, executions: list[Execution]) -> None:
        self.given_back += len(executions)
        for execution in executions:
            execution.over = True
        call = sql.give_back(self._worker_id, executions)
        self._desk.send(Errand(call, lambda _answers: self._given_back(executions)))

    def give_back_waiting(self, older_than: float | None = None) -> bool:
        """What no child has seen (since `older_than`). Answers whether there was any."""
        waiting = [e for station in self._stations for e in station.take_back(older_than) if not e.over]
        if waiting:
            say(
                Event.TASK_GIVEN_BACK,
                f"{len(waiting)} claimed tasks that no child has begun go back",
                count=len(waiting),
            )
            self.give_back(waiting)
        return bool(waiting)

    def confirm(self, station: Station) -> None:
        """Commits the start of last attempts that can begin soon: their line waits for it."""
        batch = station.to_confirm()
        if batch:
            call = sql.start(self._worker_id, batch)
            self._desk.send(Errand(call, lambda answers: self._confirmed(station, batch, answers)), first=True)

    def _confirmed(self, station: Station, batch: list[Execution], answers: sql.Answers) -> None:
        station.confirming = 0
        for execution in reversed(batch):
            answer = answers.get((execution.id, execution.claim_no), "lost")
            if answer == "kept":
                station.ready.appendleft(execution)
            elif answer == "cancelled":
                self.end_cancelled(execution)
            else:
                self.forget(execution, "its lease was gone before it began")

    def _given_back(self, executions: list[Execution]) -> None:
        for execution in executions:
            self.leases.drop(execution)


_NEVER_RETRIED = (FailureKind.VALIDATION, FailureKind.NO_HANDLER)


def failure(execution: Execution, kind: FailureKind, error: str) -> Outcome:
    return {"id": execution.id, "claim_no": execution.claim_no, "success": False, "kind": kind, "error": error}


def _say_failure(execution: Execution, outcome: Outcome) -> None:
    kind = outcome.get("kind", "snoozed")
    over = execution.is_last_attempt or outcome.get("final") or kind in _NEVER_RETRIED
    known = {} if execution.trace is None else {"trace": execution.trace}
    say(
        Event.TASK_FAILED if over else Event.TASK_RETRIED,
        f"task {execution.id} attempt {execution.attempt} of {execution.max_attempts}: {kind}: "
        f"{outcome.get('error', '')}",
        logging.INFO,
        task_id=execution.id,
        task_type=execution.task_type,
        attempt=execution.attempt,
        failure_kind=kind,
        **known,
    )
