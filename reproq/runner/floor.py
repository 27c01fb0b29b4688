"""Where tasks meet children: what the beginning or the end of one means for the other."""

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
from reproq.models.envelope import Outcome
from reproq.models.execution import End, Execution
from reproq.queue import workers
from reproq.runner.answers import Answers, explain
from reproq.runner.books import Books
from reproq.runner.crew import Station
from reproq.runner.deaths import OomWatch, cause_of, outcome_of
from reproq.runner.desk import Desk, Errand
from reproq.runner.handout import Handout
from reproq.runner.hello import read_hello
from reproq.runner.keeper import Keeper
from reproq.runner.loop import Loop
from reproq.runner.stops import Stops

_BOOTS = 5
_SLOW_BOOT_S = 30.0
_TAKES_WITHIN_S = 5.0


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
        self.answers = Answers(loop, keeper, books, handout, self.fill_pools)
        self._output = self.answers.output
        self._oom = OomWatch()
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
            self.answers.contained = {name for name, given in every.items() if given.get("contain")}
            child.station.contains = not self.answers.contained.isdisjoint(types)
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
        if self.closing and unread:
            self._books.give_back_waiting()
        prepared = self._keeper.after_death.pop(child.key, None)
        oom = bool(child.lines) and self._oom.grew()
        child.station.ends[cause_of(child, exit_, oom, self.closing)] += 1
        if child.lines:
            for execution in child.lines:
                if not execution.begun:  # it was read, and its answer can't be trusted
                    self.handout.begins(child, execution)
                known = prepared if prepared is not None and prepared["id"] == execution.id else None
                self._died(child, execution, exit_, known, oom)
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
        explain(child, execution, outcome)
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

    def check_takers(self) -> None:
        """An idle child takes its task at once; one that doesn't runs on what it has answered, or is stopped."""
        now = time.monotonic()
        for child in [child for s in self._stations if s.pool.kind.packets for child in s.pool.children.values()]:
            first = child.execution
            if first is None or child.retiring or now - first.handed_at < _TAKES_WITHIN_S:
                continue
            if not child.pool.has_begun(child):
                self.handout.take_back(child)
                if not child.pool.has_begun(child):  # else it has taken it just now
                    self.stops.is_stuck(child)

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
            self.answers.swept(pool.children[key])
        elif name == "exited":
            pool.ended(key, event, now)


def _why_not(said: dict[str, Any]) -> str | None:
    """What a template says: true, or the reason why it can't be forked."""
    answer = said.get("template")
    return None if answer is True else str(answer)


def _exit_text(exit_: dict[str, Any]) -> str:
    if exit_.get("signal") is not None:
        return f"signal {exit_['signal']}"
    return f"exit status {exit_.get('exit_code')}"
