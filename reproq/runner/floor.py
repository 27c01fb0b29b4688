"""Where tasks meet children: what an answer or a death of one means for the other."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from typing import Any

from reproq.config import Settings
from reproq.executor.guard_client import GuardGone
from reproq.executor.members import Child
from reproq.executor.pool import Pool
from reproq.log import Event, say
from reproq.models.envelope import BadEnvelope, Outcome, read_envelope
from reproq.models.execution import End, Execution
from reproq.models.states import FailureKind
from reproq.queue import workers
from reproq.runner.books import Books, failure
from reproq.runner.crew import Station
from reproq.runner.deaths import OomWatch, cause_of, outcome_of
from reproq.runner.desk import Desk, Errand
from reproq.runner.handout import Handout
from reproq.runner.hello import read_hello
from reproq.runner.keeper import Keeper
from reproq.runner.loop import Loop
from reproq.runner.output import TaskOutput
from reproq.runner.stops import Stops

_BOOTS = 5
_SLOW_BOOT_S = 30.0


class Floor:
    def __init__(
        self,
        settings: Settings,
        loop: Loop,
        keeper: Keeper,
        books: Books,
        desk: Desk,
        stations: list[Station],
        handout: Handout,
    ) -> None:
        self._loop = loop
        self._keeper = keeper
        self._books = books
        self._desk = desk
        self._stations = stations
        self._max_memory = settings.max_memory
        self._output = TaskOutput()
        self._oom = OomWatch()
        self._contained: set[str] = set()
        self._sessions: dict[str, str] = {}
        self.handout = handout
        self.stops = Stops(loop, keeper, books.leases, settings.kill_grace_s, self._child_of, handout.take_back)
        handout.watch_time = self.stops.watch
        self.closing = False
        self.types_changed: Callable[[dict[str, Any]], None] = lambda _types: None
        self.impossible: Callable[[], None] = lambda: None
        self.interrupted: Callable[[Execution], None] = lambda _execution: None
        keeper.told = self._guard_told

    def close(self) -> None:
        """No child begins anything more, and none is started."""
        self.closing = True
        self.handout.take_back_all()

    # -- answers ---------------------------------------------------------------------------------------------------

    def child_answered(self, child: Child, line: bytes) -> None:
        execution = child.execution
        assert execution is not None
        if execution.end is End.BAD_ENVELOPE:
            return
        try:
            outcome = read_envelope(line, execution.id, execution.claim_no, trusted=child.pool.kind.is_system)
        except BadEnvelope as exc:
            if _answers(line, child.before):
                self._repeated(child)
            else:
                self.child_garbled(child, str(exc))
            return
        execution.weight = len(line)
        if outcome.pop("noisy", False):
            self._make_way(child)
        outcome["ran_s"] = ran_s = _ran_s(execution, outcome.get("ran_s"), time.monotonic())
        child.station.note(ran_s)
        if child.printed:
            self._output.end(child)
        if outcome["success"] and execution.end is End.CANCELLED and not outcome.get("finished"):
            outcome |= failure(execution, FailureKind.INTERRUPTED, "it was cancelled")  # only how it ended is told
        if not outcome["success"] or "cpu_s" in outcome:
            _explain(child, execution, outcome)
        if outcome.pop("finished", False):
            self._books.committed(execution, outcome)
        elif execution.task_type in self._contained or child.pool.kind.contain:
            self._keeper.sweep(child, outcome)
            return
        else:
            self._books.record(execution, outcome)
        self._free(child)

    def _repeated(self, child: Child) -> None:
        """It said something more about the task before: not the fault of the one that runs."""
        if not child.retiring:
            child.retiring = True
            self.handout.take_back(child)
            say(Event.BAD_ENVELOPE, f"child {child.key} answered a task twice", logging.WARNING, child=child.key)

    def _make_way(self, child: Child) -> None:
        """Each of its tasks would wait for its output to be read, in vain, and all others for us who read it."""
        if child.noisy:
            return
        child.retiring = child.noisy = True
        self.handout.take_back(child)
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
            self.handout.goes_on(child, following)
        elif child.retiring:
            if child.noisy:
                self._keeper.kill(child, signal.SIGKILL)
            self.fill_pools()

    def _swept(self, child: Child) -> None:
        """Nothing that the task started is alive any more."""
        outcome = self._keeper.after_death.pop(child.key, None)
        execution = child.execution
        if outcome is not None and execution is not None:
            self._books.record(execution, outcome)
            self._free(child)

    def child_garbled(self, child: Child, why: str) -> None:
        """Its answer can't be trusted, and neither can the child: it gets no more tasks. What waited in it goes to
        others, and if it has gone on to the next task, that one may end."""
        child.retiring = True
        self.handout.take_back(child)
        execution = child.execution
        say(
            Event.BAD_ENVELOPE,
            f"child {child.key}: {why}",
            logging.WARNING,
            child=child.key,
            task_id=execution.id if execution else None,
        )
        if execution is not None and execution.end is None:
            outcome = failure(execution, FailureKind.BAD_ENVELOPE, f"its answer is no envelope: {why}")
            outcome["ran_s"] = time.monotonic() - execution.handed_at
            _explain(child, execution, outcome)
            if len(child.lines) > 1 and not child.garbled:
                if child.printed:
                    self._output.end(child)
                self._books.record(execution, outcome)
                self._free(child)
                return
            execution.end = End.BAD_ENVELOPE
            self._keeper.after_death[child.key] = outcome
        self._keeper.kill(child, signal.SIGKILL)

    def child_printed(self, child: Child, data: bytes) -> None:
        if child.ready:  # what a boot prints is told when it is over: a failed one tells it itself, and once
            self._output.say(child, data)

    # -- beginnings and ends of children ---------------------------------------------------------------------------

    def fill_pools(self) -> None:
        if self.closing or not self._keeper.up:
            return
        now = time.monotonic()
        for station in self._stations:
            try:
                again = station.pool.fill(now)
            except GuardGone:
                return
            if again is not None:
                self._loop.at(again, self.fill_pools)

    def child_ready(self, child: Child, hello: bytes) -> bool:
        """Whether its first line is what it has to be."""
        kind = child.pool.kind
        try:
            said = read_hello(hello)
            child.cannot_fork = _why_not(said) if child.pool.is_template(child) else None
            if kind.is_system:
                self._sessions[child.key] = str(said["session"])
        except (ValueError, AttributeError, TypeError, KeyError):
            return False
        types = {name: given for name, given in said["types"].items() if child.station.may_serve(name)}
        if child.printed:
            self._output.say(child, child.tail().encode())
            self._output.end(child)
        say(Event.CHILD_READY, f"child {child.key} is ready", logging.DEBUG, child=child.key, child_pid=child.pid)
        child.station.traces = said.get("traces") is True
        if types != child.pool.types or not child.station.known:
            child.station.known = True
            child.pool.types = types
            self.handout.forget_routes()
            every = {name: given for station in self._stations for name, given in station.pool.types.items()}
            self._contained = {name for name, given in every.items() if given.get("contain")}
            child.station.contains = not self._contained.isdisjoint(types)
            self.types_changed(every)
        if child.cannot_fork:
            say(
                Event.FORK_REFUSED,
                f"every task gets a new interpreter instead of a fork of a warm one: {child.cannot_fork}",
                logging.WARNING,
                child=child.key,
            )
        if child.pool.boot_failures:  # after a failure they are started one by one
            self.fill_pools()
        return True

    def child_not_started(self, child: Child, why: str) -> None:
        if not self.closing:  # else its template has been told to end, too
            self._boot_failed(child, f"child {child.key} could not be started: {why}", "")

    def child_ended(self, child: Child, exit_: dict[str, Any], unread: list[Execution]) -> None:
        self.handout.deep.discard(child)
        self.handout.put_in_front(child, unread)
        prepared = self._keeper.after_death.pop(child.key, None)
        oom = bool(child.lines) and self._oom.grew()
        child.station.ends[cause_of(child, exit_, oom, self.closing)] += 1
        if child.lines:
            for execution in child.lines:
                if not execution.begun:  # it was read, and its answer can't be trusted
                    self.handout.begins(child, execution)
                self._died(child, execution, exit_, prepared, oom)
                prepared = None
            child.lines.clear()
        elif child.boot_failed and not self.closing:
            self._boot_failed(child, f"child {child.key} ended while it started: {_exit_text(exit_)}", child.tail())
        elif not child.retiring and not self.closing:
            say(Event.CHILD_DIED, f"child {child.key} ended: {_exit_text(exit_)}", logging.WARNING, child=child.key)
        self._sessions.pop(child.key, None)
        self.fill_pools()

    def _died(
        self, child: Child, execution: Execution, exit_: dict[str, Any], prepared: Outcome | None, oom: bool
    ) -> None:
        self._output.end(child)
        self._end_session(child)
        if execution.over:
            return
        if prepared is not None and prepared["success"]:
            self._books.record(execution, prepared)
            return
        outcome = prepared or outcome_of(execution, exit_, oom)
        say(
            Event.CHILD_DIED,
            f"child {child.key} ended in the middle of task {execution.id}: {outcome['error']}",
            logging.WARNING,
            child=child.key,
            task_id=execution.id,
            task_type=execution.task_type,
            signal=exit_.get("signal"),
            exit_code=exit_.get("exit_code"),
        )
        if execution.end is End.DRAINED:
            self.interrupted(execution)
            return
        outcome["ran_s"] = time.monotonic() - execution.handed_at
        _explain(child, execution, outcome)
        outcome["detail"] |= {name: exit_.get(name) for name in ("exit_code", "signal", "cpu_s", "max_rss_kb")}
        child.station.done += 1
        self._books.record(execution, outcome)

    def _end_session(self, child: Child) -> None:
        """The server may still work for a system child that was killed; a retry starts only when that has ended."""
        session = self._sessions.pop(child.key, None)
        if session is not None:
            self._desk.send(Errand(workers.end_session(session), lambda _none: None, lost=lambda: None))

    def _boot_failed(self, child: Child, message: str, tail: str) -> None:
        pool = child.pool
        if pool.boot_failures == 1:
            say(Event.CHILD_BOOT_FAILED, message, logging.ERROR, child=child.key, output=tail or None)
        if pool.boot_failures >= _BOOTS and not pool.ever_ready:
            say(
                Event.CHILDREN_IMPOSSIBLE,
                f"the children of pool {pool.kind.name} can't be started ({_BOOTS} tries); the first error is above",
                logging.ERROR,
                pool=pool.kind.name,
            )
            self.impossible()
        self.fill_pools()

    def check_boots(self) -> None:
        """An import that hangs is no failure, but somebody should know."""
        now = time.monotonic()
        for child in [child for s in self._stations for child in s.pool.children.values()]:
            if not child.ready and now - child.born > _SLOW_BOOT_S:
                child.born = now
                say(
                    Event.CHILD_BOOT_SLOW,
                    f"child {child.key} (pid {child.pid}) still starts after {_SLOW_BOOT_S:g} s: does an import hang?",
                    logging.WARNING,
                    child=child.key,
                    output=child.tail() or None,
                )

    def check_memory(self) -> None:
        """A child that has grown too big gets no more tasks."""
        limit = self._max_memory
        if limit is None:
            return
        for child in [child for s in self._stations for child in s.pool.children.values()]:
            fresh = not child.served and child.execution is None  # another would be as big
            if child.ready and not fresh and not child.retiring and child.pool.memory_bytes(child) > limit:
                say(
                    Event.CHILD_RECYCLED,
                    f"child {child.key} uses more than {limit} bytes; another takes its place",
                    child=child.key,
                )
                self.handout.take_back(child)
                child.pool.retire(child)
                self.fill_pools()

    def _child_of(self, execution: Execution) -> Child | None:
        for station in self._stations:
            child = station.pool.children.get(execution.child_key or "")
            if child is not None and execution in child.lines:
                return child
        return None

    # -- what the guard tells --------------------------------------------------------------------------------------

    def _guard_told(self, event: dict[str, Any]) -> None:
        name, now = event["event"], time.monotonic()
        if name == "up":
            for station in self._stations:
                station.pool.use(self._keeper.guard)
            self._books.leases.rearm()
            self.fill_pools()
        elif name == "gone":
            by = "deadline" if self._books.leases.overdue() else None
            for station in self._stations:
                for key in list(station.pool.children):
                    station.pool.ended(key, {"signal": int(signal.SIGKILL), "exit_code": None, "by": by}, now)
        else:
            pool = next((s.pool for s in self._stations if event["key"] in s.pool.children), None)
            if pool is not None:
                self._child_told(pool, name, event, now)

    def _child_told(self, pool: Pool, name: str, event: dict[str, Any], now: float) -> None:
        key = event["key"]
        if name == "started":
            pool.started(key, event["pid"])
        elif name == "start_failed":
            pool.start_failed(key, event["error"], now)
        elif name == "swept":
            self._swept(pool.children[key])
        elif name == "exited":
            pool.ended(key, event, now)


def _ran_s(execution: Execution, said_s: float | None, now: float) -> float:
    """By the child's own clock, as far as that can be: it may have answered long before we looked."""
    possible = said_s is not None and 0 <= said_s <= now - execution.claimed_at
    return float(said_s) if possible else now - execution.handed_at  # type: ignore[arg-type]


def _explain(child: Child, execution: Execution, outcome: Outcome) -> None:
    """What the event that ends an execution should tell. What a success printed is in the log."""
    outcome["detail"] = {
        "child": child.key,
        "pid": child.pid,
        "duration_s": round(outcome["ran_s"], 6),
        "cpu_s": outcome.pop("cpu_s", None),
        "max_rss_kb": outcome.pop("max_rss_kb", None),
        "output": None if outcome["success"] else child.tail() or None,
    }


def _answers(line: bytes, task: tuple[int, int] | None) -> bool:
    try:
        return task is not None and bool(read_envelope(line, *task))
    except BadEnvelope:
        return False


def _why_not(said: dict[str, Any]) -> str | None:
    """What a template says: true, or the reason why it can't be forked."""
    answer = said.get("template")
    return None if answer is True else str(answer)


def _exit_text(exit_: dict[str, Any]) -> str:
    if exit_.get("signal") is not None:
        return f"signal {exit_['signal']}"
    return f"exit status {exit_.get('exit_code')}"
