"""What a child says about its tasks, read with suspicion: which task an answer ends, and which one pays for garbage."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from functools import partial

from reproq.executor.members import Child
from reproq.log import Event, say
from reproq.models.envelope import BadEnvelope, Outcome, is_from, read_envelope, task_of
from reproq.models.execution import End, Execution
from reproq.models.states import FailureKind
from reproq.runner.books import Books, failure
from reproq.runner.handout import Handout
from reproq.runner.keeper import Keeper
from reproq.runner.loop import Loop
from reproq.runner.output import TaskOutput

_LAST_WORD_S = 1.0  # within it the answer of a task has come that its child has gone on from


class Answers:
    def __init__(
        self, loop: Loop, keeper: Keeper, books: Books, handout: Handout, fill_pools: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._keeper = keeper
        self._books = books
        self._handout = handout
        self._fill_pools = fill_pools
        self.output = TaskOutput()
        self.contained: set[str] = set()  # types that want nothing of a task left when it has ended

    def child_answered(self, child: Child, line: bytes) -> None:
        execution = child.execution
        assert execution is not None
        try:
            outcome = read_envelope(line, execution.id, execution.claim_no, trusted=child.pool.kind.is_system)
        except BadEnvelope as exc:
            self._is_no_answer(child, execution, line, str(exc))
            return
        if execution.end is End.BAD_ENVELOPE:
            self._bad_one_is_over(child, execution)
            return
        execution.weight = len(line)
        if outcome.pop("noisy", False):
            self._make_way(child)
        outcome["ran_s"] = ran_s = _ran_s(execution, outcome.get("ran_s"), time.monotonic())
        child.station.note(ran_s)
        if child.printed:
            self.output.end(child)
        if outcome["success"] and execution.end is End.CANCELLED and not outcome.get("finished"):
            outcome |= failure(execution, FailureKind.INTERRUPTED, "it was cancelled")  # only how it ended is told
        if not outcome["success"] or "cpu_s" in outcome:
            explain(child, execution, outcome)
        if outcome.pop("finished", False):
            self._books.committed(execution, outcome)
        elif execution.task_type in self.contained or child.pool.kind.contain:
            if child.key not in self._keeper.after_death:  # else it has answered twice
                self._keeper.sweep(child, outcome)
            return
        else:
            self._books.record(execution, outcome)
        self._free(child)

    def child_repeats(self, child: Child) -> None:
        """It has said something more about the task before: not the fault of the one that runs."""
        if not child.retiring:
            child.pool.withdraw(child)
            self._handout.take_back(child)
            say(Event.BAD_ENVELOPE, f"child {child.key} answered a task twice", logging.WARNING, child=child.key)
        if not child.lines:
            self._distrust(child)

    def child_is_mute(self, child: Child) -> None:
        """It has closed its end: it is ending, or will never answer."""
        self._loop.after(_LAST_WORD_S, partial(self._is_mute, child))

    def _is_mute(self, child: Child) -> None:
        if child.lines and child.pool.children.get(child.key) is child:
            self.child_garbled(child, "it has closed its standard output", child.execution)

    def _distrust(self, child: Child) -> None:
        child.garbled = True
        child.pool.withdraw(child)
        self._keeper.kill(child, signal.SIGKILL)

    def _make_way(self, child: Child) -> None:
        """Each of its tasks would wait for its output to be read, in vain, and all others for us who read it."""
        if child.noisy:
            return
        child.retiring = child.noisy = True
        self._handout.take_back(child)
        say(
            Event.CHILD_RECYCLED,
            f"child {child.key} isn't silent when its task is over: something that a task left behind (a process, a "
            "thread) prints without end; another child takes its place",
            logging.WARNING,
            child=child.key,
        )

    def _free(self, child: Child) -> None:
        execution = child.execution
        assert execution is not None
        child.before = execution.id, execution.claim_no
        following = child.pool.answered(child)
        if following is not None:
            self._handout.goes_on(child, following)
        elif child.retiring:
            if child.noisy:
                self._keeper.kill(child, signal.SIGKILL)
            self._fill_pools()

    def swept(self, child: Child) -> None:
        """Nothing that the task started is alive any more."""
        outcome = self._keeper.after_death.pop(child.key, None)
        execution = child.execution
        if outcome is not None and execution is not None:
            self._books.record(execution, outcome)
            self._free(child)

    def child_garbled(self, child: Child, why: str, guilty: Execution | None) -> None:
        """What it said can't be trusted, and neither can the child: it gets no more tasks, and what waited in it goes
        to others. What it has begun since, behind the one that ran when it said so, may end."""
        child.pool.withdraw(child)
        if guilty is not None and child.key in self._keeper.after_death:  # its end is known
            return
        self._handout.take_back(child)
        say(
            Event.BAD_ENVELOPE,
            f"child {child.key}: {why}",
            logging.WARNING,
            child=child.key,
            task_id=guilty.id if guilty else None,
        )
        if guilty is not None and guilty.end is None:
            outcome = failure(guilty, FailureKind.BAD_ENVELOPE, f"its answer is no envelope: {why}")
            outcome["ran_s"] = time.monotonic() - guilty.handed_at
            explain(child, guilty, outcome)
            guilty.end = End.BAD_ENVELOPE
            self._keeper.after_death[child.key] = outcome
        if not child.lines or child.lines[-1] is guilty or child.unwritten:
            self._distrust(child)
        elif guilty is not None:
            self._loop.after(_LAST_WORD_S, partial(self._is_silent, child, guilty))

    def _is_no_answer(self, child: Child, execution: Execution, line: bytes, why: str) -> None:
        if child.before is not None and task_of(line) == child.before:
            self.child_repeats(child)
            return
        self.child_garbled(child, why, execution)
        waits = execution.end is End.BAD_ENVELOPE and not child.garbled
        if waits and is_from(line, execution.id, execution.claim_no):
            self._bad_one_is_over(child, execution)

    def _bad_one_is_over(self, child: Child, execution: Execution) -> None:
        """Its own answer has come, and the child goes on with the next."""
        if child.printed:
            self.output.end(child)
        self._books.record(execution, self._keeper.after_death.pop(child.key))
        self._free(child)

    def _is_silent(self, child: Child, guilty: Execution) -> None:
        """It has begun another task and never answered the one before."""
        if child.execution is guilty:
            self._distrust(child)

    def child_printed(self, child: Child, data: bytes) -> None:
        if child.ready:  # what a boot prints is told when it is over: a failed one tells it itself, and once
            self.output.say(child, data)


def _ran_s(execution: Execution, said_s: float | None, now: float) -> float:
    """By the child's own clock, as far as that can be: it may have answered long before we looked."""
    possible = said_s is not None and 0 <= said_s <= now - execution.claimed_at
    return float(said_s) if possible else now - execution.handed_at  # type: ignore[arg-type]


def explain(child: Child, execution: Execution, outcome: Outcome) -> None:
    """What the event that ends an execution should tell. What a success printed is in the log."""
    outcome["detail"] = {
        "child": child.key,
        "pid": child.pid,
        "duration_s": round(outcome["ran_s"], 6),
        "cpu_s": outcome.pop("cpu_s", None),
        "max_rss_kb": outcome.pop("max_rss_kb", None),
        "output": None if outcome["success"] else child.tail() or None,
    }
