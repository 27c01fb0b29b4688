"""What became of tasks, counted where their answers come in: batch by batch, by the loop's thread, in plain lists.

A worker without metrics has no meter, and pays one comparison a batch. With one a task costs a few tenths of a
microsecond; what costs more (names, text) waits for a scrape, which is another thread's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

from reproq.metrics import SECONDS, Histogram, Names
from reproq.models.envelope import Outcome
from reproq.models.execution import Execution

SUCCEEDED, SNOOZED, CANCELLED = "succeeded", "snoozed", "cancelled"
Answers = Mapping[tuple[int, int], str]


class Ends:
    """Of the tasks of one type."""

    __slots__ = ("outcomes", "run")

    def __init__(self) -> None:
        self.outcomes = {SUCCEEDED: 0}
        self.run = Histogram()


class Meter:
    def __init__(self, label_of: Callable[[str], str]) -> None:
        self._label_of = label_of
        self.types: dict[str, Ends] = {}
        self.waits: dict[str, Histogram] = {}  # by queue
        self._type_of: dict[str, Ends] = {}  # more names than there are labels
        self._wait_of: dict[str, Histogram] = {}
        self._type_names, self._queue_names = Names(), Names()

    def ended(self, batch: Iterable[tuple[Execution, Outcome]], answers: Answers | None) -> None:
        """What the database answered for a batch of outcomes; no answers: they were committed where they were made."""
        types, waits = self._type_of, self._wait_of
        for execution, outcome in batch:
            answer = "done" if answers is None else answers.get((execution.id, execution.claim_no), "lost")
            if answer == "lost":
                continue
            ends = types.get(execution.task_type) or self._new_type(execution.task_type)
            if outcome["success"] and answer != "cancelled":
                ends.outcomes[SUCCEEDED] += 1
            else:
                _count(ends.outcomes, outcome, answer)
            ran_s = outcome.get("ran_s")
            if ran_s is not None:
                run = ends.run
                run.counts[bisect_left(SECONDS, ran_s)] += 1
                run.sum += ran_s
                wait = waits.get(execution.queue_name) or self._new_queue(execution.queue_name)
                waited_s = execution.waited_s + execution.handed_at - execution.claimed_at
                wait.counts[bisect_left(SECONDS, waited_s)] += 1
                wait.sum += waited_s

    def _new_type(self, task_type: str) -> Ends:
        ends = self.types.setdefault(self._type_names.label(self._label_of(task_type)), Ends())
        if len(self._type_of) < 10_000:
            self._type_of[task_type] = ends
        return ends

    def _new_queue(self, queue: str) -> Histogram:
        wait = self.waits.setdefault(self._queue_names.label(queue), Histogram())
        if len(self._wait_of) < 10_000:
            self._wait_of[queue] = wait
        return wait


def _count(outcomes: dict[str, int], outcome: Outcome, answer: str) -> None:
    kind = CANCELLED if answer == "cancelled" else str(outcome.get("kind", SNOOZED))
    outcomes[kind] = outcomes.get(kind, 0) + 1
