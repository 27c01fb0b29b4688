"""The brain of a worker: claims, hands out, collects, finishes.

One thread serves everything by events; the heartbeat is the only other one. The loop never waits for the database, never
parses a payload, and never runs task code. Boot order and stop order are `run` and `Drain`, nowhere else.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
import uuid
from functools import partial
from typing import Any

import orjson
from setproctitle import setproctitle

from reproq import __version__
from reproq.config import Settings
from reproq.executor.guard_client import GuardGone
from reproq.executor.order import Orders
from reproq.executor.pool import Child, Pool
from reproq.log import Event, bind, say
from reproq.models.envelope import BadEnvelope, Outcome, read_envelope
from reproq.models.execution import End, Execution
from reproq.models.states import FailureKind
from reproq.queue import claim as claim_sql
from reproq.queue import lease as lease_sql
from reproq.queue import workers
from reproq.runner import crew
from reproq.runner.claims import Claims
from reproq.runner.deaths import OomWatch, outcome_of
from reproq.runner.desk import Desk, Errand
from reproq.runner.drain import Drain
from reproq.runner.finishes import Finishes
from reproq.runner.heart import Heart
from reproq.runner.keeper import Keeper
from reproq.runner.leases import Leases
from reproq.runner.loop import Loop
from reproq.runner.output import TaskOutput

_TICK_S = 0.25
_KEPT_WAITING_S = 1.0
_LOST_GRACE_S = 0.5
_BOOTS = 5
EXIT_LEFT_BEHIND, EXIT_NO_CHILDREN = 1, 70


class Runner:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = f"{settings.worker_id}/{os.getpid()}"
        self.worker_id = f"{self.name}/{uuid.uuid4()}"  # the fence: shown to nobody
        self.loop = Loop()
        self.keeper = Keeper(settings, self.loop, self._guard_event)
        self.leases = Leases(settings.lease_s, self.keeper.deadline)
        scope = claim_sql.Scope.of(self.worker_id, settings.queues, settings.prefixes)
        self._scope = scope
        dsn = settings.database_url or ""
        self.claim_desk = Desk(self.loop, dsn, "claims")
        self.finish_desk = Desk(self.loop, dsn, "finishes")
        self.claims = Claims(
            self.claim_desk, scope, settings.lease_s, settings.poll_interval_s, self.leases, self)  # fmt: skip
        self.finishes = Finishes(self.finish_desk, self.worker_id, self._finished)
        self.heart = Heart(
            dsn, self.worker_id, settings.lease_s, settings.heartbeat_s, self.leases, self, self.loop.post)  # fmt: skip
        self.drain = Drain(self)
        self.output = TaskOutput()
        self._app_orders, self._system_orders = Orders(self.name), Orders(self.worker_id)
        self._oom = OomWatch()
        greeting = orjson.dumps({"v": 1, "do": "settings", "dsn": dsn}) + b"\n"
        self.stations = [
            crew.Station(Pool(kind, self.loop, self, settings.max_envelope)) for kind in crew.kinds(settings, greeting)
        ]
        self._station_of = {id(station.pool): station for station in self.stations}
        self._route: dict[str, crew.Station | None] = {}
        self._contained: set[str] = set()
        self._sessions: dict[str, int] = {}
        self._registered = False
        self._asking_empty = False
        self.empty = False
        self.exit_status: int | None = None

    # -- boot ------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        bind(worker_id=self.name)
        self.keeper.start()
        self.loop.wake_on({signal.SIGTERM: self.drain.asked, signal.SIGINT: self.drain.asked, signal.SIGQUIT: self.drain.asked})
        self.claim_desk.open()
        self.finish_desk.open()
        self.heart.start()
        self._fill_pools()
        self._tick()
        say(Event.WORKER_STARTED, self._describe(), pid=os.getpid(), queues=list(self.settings.queues) or None)
        try:
            while self.exit_status is None:
                self._turn()
        finally:
            self._close()
        say(Event.WORKER_STOPPED, f"worker stopped with status {self.exit_status}", status=self.exit_status)
        return self.exit_status

    def _turn(self) -> None:
        now = time.monotonic()
        stations = self.stations
        for station in stations:
            if station.ready and station.pool.idle:
                self._hand_out(station)
        self.claims.turn(now, stations)
        due = self.finishes.turn(now, hurry=not any(station.ready for station in stations))
        if self.drain.under_way:
            self.drain.turn()
        patience = _TICK_S if due is None else max(0.0, due - now)
        if not self.claims.stopped and self.claims.next_at > now:
            patience = min(patience, self.claims.next_at - now)
        self.loop.turn(patience)

    def _close(self) -> None:
        """Children first (none of them may outlive its lease), the heartbeat last."""
        self.keeper.stop()
        self.heart.stop()
        self.claim_desk.close()
        self.finish_desk.close()
        self.loop.close()

    def _describe(self) -> str:
        queues = ", ".join(self.settings.queues) or "every queue"
        pools = ", ".join(f"{station.pool.kind.size} {station.pool.kind.name}" for station in self.stations)
        return f"worker started: {queues}; children: {pools or 'none'}"

    # -- claimed work ----------------------------------------------------------------------------------------------

    def take(self, executions: list[Execution]) -> None:
        """Fresh from a claim."""
        now = time.monotonic()
        for execution in executions:
            execution.claimed_at = now
            station = self._station_for(execution.task_type)
            if station is None:
                self._refuse(execution)
            elif execution.is_last_attempt:
                station.unconfirmed.append(execution)
            else:
                station.ready.append(execution)
        if self.drain.under_way:
            self.give_back_waiting()
            return
        for station in self.stations:
            self._confirm(station)
            if station.ready and station.pool.idle:
                self._hand_out(station)

    def nothing_found(self) -> None:
        if self.settings.until_empty and not self._asking_empty and not self.leases:
            self._asking_empty = True
            self.claim_desk.send(Errand(claim_sql.nothing_left(self._scope), self._told_empty))

    def _told_empty(self, empty: bool) -> None:
        self._asking_empty = False
        if empty and not self.leases and not self.drain.under_way:
            self.empty = True
            self.drain.begin("no task is left")

    def _station_for(self, task_type: str) -> crew.Station | None:
        try:
            return self._route[task_type]
        except KeyError:
            station = next((s for s in self.stations if self._serves(s.pool, task_type)), None)
            if len(self._route) < 10_000:
                self._route[task_type] = station
            return station

    @staticmethod
    def _serves(pool: Pool, task_type: str) -> bool:
        kind = pool.kind
        if kind.types is not None:
            return task_type in kind.types
        if kind.prefixes is not None:
            return task_type.startswith(kind.prefixes)
        return task_type in pool.types

    def _refuse(self, execution: Execution) -> None:
        known = sorted({name for station in self.stations for name in station.pool.types})
        error = f"no handler is registered for {execution.task_type}; this worker knows {', '.join(known[:10]) or 'none'}"
        say(Event.TASK_FAILED, error, logging.WARNING, task_id=execution.id, task_type=execution.task_type)
        self._end(execution, {"success": False, "kind": FailureKind.NO_HANDLER, "error": error, "final": True})

    def _confirm(self, station: crew.Station) -> None:
        """Commits the start of last attempts that can begin soon."""
        room = max(len(station.pool.idle), int(station.rate * 0.02), 1) - station.confirming
        if not station.unconfirmed or room <= 0 or station.confirming:
            return
        batch = [station.unconfirmed.popleft() for _ in range(min(room, len(station.unconfirmed)))]
        station.confirming = len(batch)
        call = lease_sql.start(self._scope.worker_id, batch)
        self.finish_desk.send(Errand(call, lambda answers: self._confirmed(station, batch, answers)), first=True)

    def _confirmed(self, station: crew.Station, batch: list[Execution], answers: lease_sql.Answers) -> None:
        station.confirming = 0
        for execution in reversed(batch):
            answer = answers.get((execution.id, execution.claim_no), "lost")
            if answer == "kept":
                execution.confirmed = True
                station.ready.appendleft(execution)
            elif answer == "cancelled":
                self._end(execution, {"success": False, "kind": FailureKind.INTERRUPTED, "error": "it was cancelled"})
            else:
                self._forget(execution, "its lease was gone before it began")
        if self.drain.under_way:
            self.give_back_waiting()

    # -- children --------------------------------------------------------------------------------------------------

    def _hand_out(self, station: crew.Station) -> None:
        pool, ready, idle = station.pool, station.ready, station.pool.idle
        while ready and idle:
            execution = ready.popleft()
            if execution.over or not self._may_begin(execution):
                continue
            self._give(pool, idle.popleft(), execution)
        if station.unconfirmed and not ready:
            self._confirm(station)

    def _may_begin(self, execution: Execution) -> bool:
        if execution.end is not None:
            self._end(execution, {"success": False, "kind": FailureKind.INTERRUPTED, "error": "it was cancelled"})
            return False
        if not self.leases.may_begin(execution):
            self._forget(execution, "its lease ran out before a child was free")
            return False
        return True

    def _give(self, pool: Pool, child: Child, execution: Execution) -> None:
        if execution.timeout_s is None:
            execution.timeout_s = (pool.types.get(execution.task_type) or {}).get("timeout")
        orders = self._system_orders if pool.kind.types is not None else self._app_orders
        execution.begun = True
        execution.handed_at = time.monotonic()
        execution.child_key = child.key
        if not pool.hand(child, execution, orders.run(execution)):
            execution.begun = False
            execution.child_key = None
            self._station_of[id(pool)].ready.appendleft(execution)
        elif execution.timeout_s is not None:
            self.loop.at(execution.handed_at + execution.timeout_s, partial(self._timed_out, child, execution))

    def child_answered(self, child: Child, line: bytes) -> None:
        execution = child.execution
        assert execution is not None
        if execution.end is End.BAD_ENVELOPE:
            return
        try:
            outcome = read_envelope(line, execution.id, execution.claim_no)
        except BadEnvelope as exc:
            self.child_garbled(child, str(exc))
            return
        outcome["ran_s"] = time.monotonic() - execution.handed_at
        if child.printed:
            self.output.end(child)
        station = self._station_of[id(child.pool)]
        station.done += 1
        if outcome.pop("finished", False) and child.pool.kind.types is not None:
            self._finished(execution, outcome, "done")  # a system child has committed it
            self._free(child, station)
            return
        if not outcome["success"]:
            self._explain(child, execution, outcome)
        if execution.task_type in self._contained or child.pool.kind.contain:
            self.keeper.sweep(child, outcome)
        else:
            self._record(execution, outcome)
            self._free(child, station)

    def _free(self, child: Child, station: crew.Station) -> None:
        pool = child.pool
        ready = station.ready
        if ready and not child.retiring and (pool.kind.recycle is None or child.served + 1 < pool.kind.recycle):
            child.served += 1
            execution = ready.popleft()
            if not execution.over and self._may_begin(execution):
                self._give(pool, child, execution)
                return
            child.served -= 1
        pool.release(child)
        if child.retiring:
            self._fill_pools()

    def _swept(self, child: Child) -> None:
        """Nothing that the task started is alive any more."""
        outcome = self.keeper.after_death.pop(child.key, None)
        if outcome is not None and child.execution is not None:
            self._record(child.execution, outcome)
            self._free(child, self._station_of[id(child.pool)])

    def _record(self, execution: Execution, outcome: Outcome) -> None:
        if not self.leases.holds(execution):
            self._drop(execution, outcome)
            return
        self.finishes.add(execution, outcome)

    def _explain(self, child: Child, execution: Execution, outcome: Outcome) -> None:
        """What the event of a failed execution should tell."""
        tail = child.tail()
        outcome["detail"] = {
            "child": child.key, "pid": child.pid, "duration_s": round(time.monotonic() - execution.handed_at, 6),
            "cpu_s": outcome.pop("cpu_s", None), "max_rss_kb": outcome.pop("max_rss_kb", None), "output": tail or None,
        }  # fmt: skip

    def child_garbled(self, child: Child, why: str) -> None:
        """Its answer can't be trusted, and neither can the child."""
        execution = child.execution
        say(Event.BAD_ENVELOPE, f"child {child.key}: {why}", logging.WARNING, child=child.key,
            task_id=execution.id if execution else None)  # fmt: skip
        child.retiring = True
        if execution is not None and execution.end is None:
            execution.end = End.BAD_ENVELOPE
            outcome: Outcome = {
                "id": execution.id, "claim_no": execution.claim_no, "success": False,
                "kind": FailureKind.BAD_ENVELOPE, "error": f"its answer is no envelope: {why}",
            }  # fmt: skip
            self._explain(child, execution, outcome)
            self.keeper.after_death[child.key] = outcome
        child.pool.kill(child, signal.SIGKILL)

    def child_printed(self, child: Child, data: bytes) -> None:
        self.output.say(child, data)

    def child_ready(self, child: Child, hello: bytes) -> None:
        try:
            said = orjson.loads(hello)
            types = dict(said.get("types") or {})
        except (ValueError, AttributeError, TypeError):
            self.child_garbled(child, "its first line is not a ready line")
            return
        pool = child.pool
        if pool.kind.types is not None:
            self._sessions[child.key] = int(said["backend_pid"])
        say(Event.CHILD_READY, f"child {child.key} is ready", logging.DEBUG, child=child.key, child_pid=child.pid)
        if types != pool.types or not self._registered:
            pool.types = types
            self._route.clear()
            self._contained = {n for s in self.stations for n, o in s.pool.types.items() if (o or {}).get("contain")}
            self._register()

    def _register(self) -> None:
        self._registered = True
        types = {name: given or {} for station in self.stations for name, given in station.pool.types.items()}
        size = sum(station.pool.kind.size for station in self.stations)
        call = workers.register(
            self._scope, socket.gethostname(), os.getpid(), __version__, size, types, not self.settings.leave_unknown
        )
        self.finish_desk.send(Errand(call, lambda _none: None, refused=self._types_refused))

    def _types_refused(self, exc: Exception) -> None:
        say(Event.DATABASE_ERROR, f"the settings of the task types were refused: {exc}", logging.ERROR)

    def child_not_started(self, child: Child, why: str) -> None:
        self._boot_failed(child, f"child {child.key} could not be started: {why}", "")

    def child_ended(self, child: Child, exit_: dict[str, Any]) -> None:
        execution, child.execution = child.execution, None
        prepared = self.keeper.after_death.pop(child.key, None)
        if not child.ready and not self.drain.under_way:
            self._boot_failed(child, f"child {child.key} ended while it started: {_exit_text(exit_)}", child.tail())
        elif execution is not None:
            self._died(child, execution, exit_, prepared)
        elif not child.retiring:
            say(Event.CHILD_DIED, f"child {child.key} ended: {_exit_text(exit_)}", logging.WARNING, child=child.key)
        self._fill_pools()

    def _died(self, child: Child, execution: Execution, exit_: dict[str, Any], prepared: Outcome | None) -> None:
        self.output.end(child)
        self._end_session(child)
        if prepared is not None and prepared["success"]:
            self._record(execution, prepared)
            return
        outcome = prepared or outcome_of(execution, exit_, self._oom.grew())
        say(Event.CHILD_DIED, f"child {child.key} ended in the middle of task {execution.id}: {outcome['error']}",
            logging.WARNING, child=child.key, task_id=execution.id, task_type=execution.task_type,
            signal=exit_.get("signal"), exit_code=exit_.get("exit_code"))  # fmt: skip
        if execution.over:
            return
        if execution.end is End.DRAINED:
            self.drain.stopped_in_the_middle(execution)
            return
        if execution.end is End.LOST or not self.leases.holds(execution):
            self._drop(execution, outcome)
            return
        self._explain(child, execution, outcome)
        outcome["detail"] |= {name: exit_.get(name) for name in ("exit_code", "signal", "cpu_s", "max_rss_kb")}
        outcome["ran_s"] = time.monotonic() - execution.handed_at
        self._station_of[id(child.pool)].done += 1
        self.finishes.add(execution, outcome)

    def _end_session(self, child: Child) -> None:
        """The server may still work for a system child that was killed; a retry starts only when that has ended."""
        backend_pid = self._sessions.pop(child.key, None)
        if backend_pid is not None:
            self.finish_desk.send(Errand(workers.end_session(backend_pid), lambda _none: None, lost=lambda: None))

    def _boot_failed(self, child: Child, message: str, tail: str) -> None:
        pool = child.pool
        if pool.boot_failures == 1 or not tail:
            say(Event.CHILD_BOOT_FAILED, message, logging.ERROR, child=child.key, output=tail or None)
        if pool.boot_failures >= _BOOTS and not pool.ever_ready:
            say(Event.CHILDREN_IMPOSSIBLE, f"the children of pool {pool.kind.name} can't be started ({_BOOTS} tries); "
                "the first error is above", logging.ERROR, pool=pool.kind.name)  # fmt: skip
            self.drain.begin("children can't be started", status=EXIT_NO_CHILDREN)
        self._fill_pools()

    def _fill_pools(self) -> None:
        if self.drain.under_way or not self.keeper.up:
            return
        now = time.monotonic()
        for station in self.stations:
            try:
                again = station.pool.fill(now)
            except GuardGone:
                return
            if again is not None:
                self.loop.at(again, self._fill_pools)

    # -- ways to end -----------------------------------------------------------------------------------------------

    def _timed_out(self, child: Child, execution: Execution) -> None:
        if child.execution is execution and execution.end is None and not execution.over:
            execution.end = End.TIMED_OUT
            say(Event.TASK_TIMED_OUT, f"task {execution.id} ran longer than {execution.timeout_s:g} s",
                logging.WARNING, task_id=execution.id, task_type=execution.task_type)  # fmt: skip
            self._kill(child, execution, 0)

    def cancelled(self, execution: Execution) -> None:
        """The database says that somebody cancelled it: ask the task, then TERM, then KILL."""
        if execution.over or execution.end is not None or not self.leases.holds(execution):
            return
        execution.end = End.CANCELLED
        say(Event.TASK_CANCELLED, f"task {execution.id} is cancelled", task_id=execution.id)
        child = self._child_of(execution)
        if child is None:
            return  # it waits for a child; _may_begin ends it
        child.pool.tell(child, Orders.cancel(execution))
        self._kill(child, execution, self.settings.kill_grace_s, self.settings.kill_grace_s)

    def lost(self, execution: Execution) -> None:
        """Somebody else may run it: stop ours, and say nothing about it to the database."""
        if execution.over or not self.leases.holds(execution):
            return
        execution.end = End.LOST
        self.leases.drop(execution)
        say(Event.LEASE_LOST, f"the lease of task {execution.id} is lost", logging.WARNING, task_id=execution.id,
            claim_no=execution.claim_no)  # fmt: skip
        child = self._child_of(execution)
        if child is not None:
            self._kill(child, execution, 0, _LOST_GRACE_S)
        else:
            execution.over = True

    def heard(self, queue: str) -> None:
        if not queue or not self.settings.queues or queue in self.settings.queues:
            self.claims.wake()

    def _kill(self, child: Child, execution: Execution, before_term_s: float, grace_s: float | None = None) -> None:
        """TERM after `before_term_s`, KILL `grace_s` later; without a grace KILL at once."""
        child.retiring = True

        def send(number: signal.Signals) -> None:
            if child.execution is execution:
                self.keeper.kill(child, number)

        if grace_s is None:
            send(signal.SIGKILL)
            return
        self.loop.after(before_term_s, partial(send, signal.SIGTERM))
        self.loop.after(before_term_s + grace_s, partial(send, signal.SIGKILL))

    def _child_of(self, execution: Execution) -> Child | None:
        for station in self.stations:
            child = station.pool.children.get(execution.child_key or "")
            if child is not None and child.execution is execution:
                return child
        return None

    # -- books -----------------------------------------------------------------------------------------------------

    def _end(self, execution: Execution, outcome: Outcome) -> None:
        self.finishes.add(execution, {"id": execution.id, "claim_no": execution.claim_no} | outcome)

    def _finished(self, execution: Execution, outcome: Outcome, answer: str) -> None:
        self.leases.drop(execution)
        if answer == "lost":
            self._drop(execution, outcome)
        elif not outcome["success"] and answer == "done":
            kind = outcome.get("kind", "snoozed")
            say(Event.TASK_FAILED if execution.is_last_attempt or outcome.get("final") else Event.TASK_RETRIED,
                f"task {execution.id} attempt {execution.attempt} of {execution.max_attempts}: {kind}: "
                f"{outcome.get('error', '')}", logging.INFO, task_id=execution.id, task_type=execution.task_type,
                attempt=execution.attempt, failure_kind=kind)  # fmt: skip

    def _drop(self, execution: Execution, outcome: Outcome) -> None:
        execution.over = True
        self.leases.drop(execution)
        say(Event.RESULT_DROPPED, f"the lease of task {execution.id} is lost; its outcome is dropped", logging.WARNING,
            task_id=execution.id, claim_no=execution.claim_no, success=outcome.get("success"))  # fmt: skip

    def _forget(self, execution: Execution, why: str) -> None:
        """Claimed and never begun, and perhaps not ours any more: back it goes, if it still is."""
        execution.over = True
        say(Event.TASK_GIVEN_BACK, f"task {execution.id} goes back: {why}", logging.INFO, task_id=execution.id)
        self.give_back([execution])

    def give_back(self, executions: list[Execution]) -> None:
        if executions:
            for execution in executions:
                execution.over = True
            call = lease_sql.give_back(self._scope.worker_id, executions)
            self.finish_desk.send(Errand(call, lambda _answers: self._given_back(executions)))

    def _given_back(self, executions: list[Execution]) -> None:
        for execution in executions:
            self.leases.drop(execution)

    def give_back_waiting(self, older_than: float | None = None) -> None:
        """What no child has seen."""
        waiting: list[Execution] = []
        for station in self.stations:
            for line in (station.ready, station.unconfirmed):
                while line and (older_than is None or line[0].claimed_at < older_than):
                    execution = line.popleft()
                    if not execution.over:
                        waiting.append(execution)
        if waiting:
            say(Event.TASK_GIVEN_BACK, f"{len(waiting)} claimed tasks that no child has begun go back", count=len(waiting))
            self.give_back(waiting)

    def _tick(self) -> None:
        now = time.monotonic()
        for station in self.stations:
            station.count(now)
            self._confirm(station)
        self.give_back_waiting(older_than=now - _KEPT_WAITING_S)
        self.claim_desk.check_silence()
        self.finish_desk.check_silence()
        self._check_memory()
        self._title()
        self.loop.after(_TICK_S, self._tick)

    def _check_memory(self) -> None:
        limit = self.settings.max_memory
        for child in [child for s in self.stations for child in s.pool.children.values()] if limit else []:
            if not child.retiring and child.ready and child.pool.memory_bytes(child) > (limit or 0):
                say(Event.CHILD_RECYCLED, f"child {child.key} uses more than {limit} bytes; another takes its place", child=child.key)
                child.pool.retire(child)
                self._fill_pools()

    def _title(self) -> None:
        running = sum(len(station.pool.busy) for station in self.stations)
        queues = ",".join(self.settings.queues) or "every queue"
        doing = "draining" if self.drain.under_way else f"{len(self.leases)} claimed"
        setproctitle(f"reproq worker: {queues}: {running} running, {doing}")

    def _guard_event(self, event: dict[str, Any]) -> None:
        name, key, now = event["event"], event.get("key", ""), time.monotonic()
        pool = next((s.pool for s in self.stations if key in s.pool.children), None)
        if name == "up":
            for station in self.stations:
                station.pool.use(self.keeper.guard)
            self.leases.rearm()
            self._fill_pools()
        elif name == "gone":
            for station in self.stations:
                for lost in list(station.pool.children):
                    station.pool.ended(lost, {"signal": 9, "by": "deadline", "exit_code": None}, now)
        elif pool is None:
            return
        elif name == "started":
            pool.started(key, event["pid"])
        elif name == "start_failed":
            pool.start_failed(key, event["error"], now)
        elif name == "swept":
            self._swept(pool.children[key])
        elif name == "exited":
            pool.ended(key, event, now)


def _exit_text(exit_: dict[str, Any]) -> str:
    if exit_.get("signal") is not None:
        return f"signal {exit_['signal']}"
    return f"exit status {exit_.get('exit_code')}"
