"""A worker: the parts, put together, and the loop that drives them.

One thread serves everything by events; the heartbeat is the only other one. The loop never waits for the database,
never parses a payload, and never runs task code. The boot order stands in `run`, the stop order in drain.py.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from typing import TYPE_CHECKING, Any

from setproctitle import setproctitle

from reproq import __version__, signals
from reproq.config import Settings
from reproq.db.errors import first_line
from reproq.executor import kernel
from reproq.executor.pool import Pool
from reproq.log import Event, bind, say
from reproq.metrics import OTHER
from reproq.models.execution import Execution
from reproq.queue import claim as claim_sql
from reproq.queue import workers
from reproq.runner import crew
from reproq.runner.books import Books
from reproq.runner.claims import Claims
from reproq.runner.desk import Desk, Errand
from reproq.runner.drain import Drain
from reproq.runner.floor import Floor
from reproq.runner.handout import Handout
from reproq.runner.health import Health
from reproq.runner.heart import Heart
from reproq.runner.herald import Herald
from reproq.runner.house import House
from reproq.runner.keeper import Keeper
from reproq.runner.leases import Leases
from reproq.runner.loop import Loop
from reproq.runner.measures import Measures

if TYPE_CHECKING:
    from reproq.runner.probe import Probe

_TICK_S = 0.25
_KEPT_WAITING_S = 0.5
EXIT_NO_CHILDREN = 70
_MOST_UNSERVED = 20
_MOST_PENDING = 4 * crew.MAX_BATCH


class Runner:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = f"{settings.worker_id}/{os.getpid()}"
        self.worker_id = f"{self.name}/{uuid.uuid4()}"  # the fence: shown to nobody
        self._scope = claim_sql.Scope.of(self.worker_id, settings.queues, settings.prefixes)
        dsn = settings.database_url or ""
        self.health = Health(settings.lease_s)
        self.herald = Herald(self.health)
        self.loop = Loop()
        self.keeper = Keeper(settings, self.loop)
        self.leases = Leases(settings.lease_s, self.keeper.deadline)
        self.claim_desk = Desk(self.loop, dsn, "claims")
        self.finish_desk = Desk(self.loop, dsn, "finishes", calm=True)
        self.stations: list[crew.Station] = []
        self.books = Books(self.finish_desk, self.worker_id, self.leases, self.stations)
        self.handout = Handout(self.books, self.stations, self.worker_id, settings.max_in_flight)
        self.floor = Floor(settings, self.loop, self.keeper, self.books, self.finish_desk, self.stations, self.handout)
        for kind in crew.kinds(settings):
            self.stations.append(
                crew.Station(Pool(kind, self.loop, self.floor, self.floor.answers, settings.max_envelope))
            )
        self.claims = Claims(self.claim_desk, self._scope, settings, self.leases, self.stations, self)
        self.heart = Heart(
            dsn, self.worker_id, settings.lease_s, settings.heartbeat_s, self.leases, self, self.loop.post
        )
        self.measures = Measures() if settings.metrics_address else None
        self.house = House(
            self.loop,
            self.finish_desk,
            dsn,
            self.worker_id,
            lease_s=settings.lease_s,
            worker_timeout_s=settings.worker_timeout_s,
            measures=self.measures,
        )
        self.drain = Drain(self)
        self.floor.types_changed = self._register
        self.books.retried = self.claims.retry_noted
        self.floor.impossible = lambda: self.drain.begin("children that can't be started", status=EXIT_NO_CHILDREN)
        self.floor.interrupted = lambda execution: self.books.give_back([execution])
        self._asking_empty = False
        self._asked_unserved = False
        self._started = False
        self.exit_status: int | None = None
        self._probe: Probe | None = None

    def run(self) -> int:
        bind(worker_id=self.name)
        os.umask(0o077)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # tasks run with our uid: none may read our environment or memory
        self._open_probe()
        stop = self.drain.asked
        self.loop.wake_on(dict.fromkeys(signals.stopping(), stop))
        self.keeper.start()
        self.claim_desk.open()
        self.finish_desk.open()
        self.heart.start()
        self.house.open()
        self._tick()
        self._warn_about_root()
        try:
            while self.exit_status is None:
                self._turn()
        finally:
            self._close()
        say(Event.WORKER_STOPPED, f"worker stopped with status {self.exit_status}", status=self.exit_status)
        return self.exit_status

    def _open_probe(self) -> None:
        """What only a worker with metrics loads: asyncio alone is 30 ms of start."""
        if self.settings.metrics_address is None or self.measures is None:
            return
        from reproq.runner.meter import Meter
        from reproq.runner.probe import Probe
        from reproq.runner.scrape import Scrape

        meter = self.books.finishes.meter = Meter(self._type_label)
        self.claims.measured = True
        self._probe = Probe(self.settings.metrics_address, self.health, Scrape(self, meter, self.measures).families)
        self._probe.start()
        say(Event.METRICS_SERVED, f"metrics at http://{self._probe.address}/metrics", address=self._probe.address)

    def _type_label(self, task_type: str) -> str:
        """A type that somebody has registered, or the prefix of a command: what an application makes up is no label."""
        station = next((station for station in self.stations if station.serves(task_type)), None)
        if station is None:
            return OTHER
        kind = station.pool.kind
        if kind.types is not None or task_type in station.pool.types:
            return task_type
        return next((f"{prefix}*" for prefix in kind.prefixes or () if task_type.startswith(prefix)), OTHER)

    def _warn_about_root(self) -> None:
        """No doctor sees this: it looks at databases."""
        kinds = [station.pool.kind for station in self.stations]
        if os.geteuid() == 0 and any(kind.types is None and not kind.confinement.uids for kind in kinds):
            say(
                Event.TASKS_RUN_AS_ROOT,
                "tasks run as root, so that a task may do anything on this machine: run the worker as a user of its"
                " own, or give types a uid in [[limits]]",
                logging.WARNING,
            )

    def _turn(self) -> None:
        self.health.turned_at = now = time.monotonic()
        patience, nap, more = _TICK_S, 0.0, False
        for station in self.stations:
            if station.ready or station.unconfirmed:
                more = True
                if station.pool.idle:
                    self.handout.hand_out(station)
        if self.handout.deep:
            patience = min(patience, self.handout.look_after_deep(now))
        if self.drain.under_way:
            self.health.draining = True
            self.drain.turn()
        else:
            patience = min(patience, self.claims.turn(now))
            if self.handout.deep:
                nap = self.handout.nap_s()
        due = self.books.finishes.turn(now, hurry=not more)
        self.loop.turn(patience if due is None else max(0.0, min(patience, due - now)), nap)

    def _close(self) -> None:
        """Children first (none of them may outlive its lease), the heartbeat last."""
        self.keeper.stop()
        self.house.close()
        self.heart.stop()
        self.claim_desk.close()
        self.finish_desk.close()
        if self._probe is not None:
            self._probe.close()
        self.loop.close()

    def take(self, executions: list[Execution]) -> dict[crew.Station, int]:
        shares = self.handout.take(executions)
        if self.drain.under_way:  # a claim that was in flight when the drain began
            self.books.give_back_waiting()
        return shares

    def congested(self) -> bool:
        """Outcomes pile up: the database takes them slower than tasks are run."""
        finishes = self.books.finishes
        return finishes.pending > _MOST_PENDING or finishes.weight > self.settings.max_in_flight

    def room(self) -> int:
        """How many bytes of payloads may be claimed; the first task fits always."""
        waiting = sum(station.weight for station in self.stations)
        return max(1, self.settings.max_in_flight - waiting - self.books.finishes.weight)

    def nothing_found(self) -> None:
        if self.settings.until_empty and not self._asking_empty and not self.leases:
            self._asking_empty = True
            pools = self.claims.as_sql(self.claims.wants())
            self.claim_desk.send(Errand(claim_sql.nothing_left(self._scope, pools), self._told_empty))

    def heard(self, queue: str) -> None:
        """A notification: somebody enqueued."""
        if queue == "house ":
            self.house.wake()
        elif not queue or not self.settings.queues or queue in self.settings.queues:
            self.claims.wake()

    def lost(self, execution: Execution) -> None:
        self.floor.stops.lost(execution)

    def cancelled(self, execution: Execution) -> None:
        self.floor.stops.cancelled(execution)

    def _told_empty(self, empty: bool) -> None:
        self._asking_empty = False
        if empty and not self.leases:
            self.drain.begin("nothing left to do")

    def _register(self, types: dict[str, Any]) -> None:
        if self.drain.under_way:  # its row must not outlive it
            return
        size = sum(station.pool.kind.size for station in self.stations)
        call = workers.register(
            self._scope, socket.gethostname(), os.getpid(), __version__, size, types, not self.settings.leave_unknown
        )
        known = [station for station in self.stations if station.known]
        self.finish_desk.send(
            Errand(call, lambda _none: self._registered(known), refused=lambda exc: self._types_refused(known, exc))
        )

    def _registered(self, known: list[crew.Station]) -> None:
        for station in known:
            station.registered = True
        self._look_after_health()
        self._ask_unserved()

    def _types_refused(self, known: list[crew.Station], exc: Exception) -> None:
        say(Event.DATABASE_ERROR, f"the settings of the task types were refused: {first_line(exc)}", logging.ERROR)
        self._registered(known)

    def _ask_unserved(self) -> None:
        """Once all of our own types are known: does anything wait for a worker that doesn't exist?"""
        if not self._asked_unserved and all(station.known for station in self.stations):
            self._asked_unserved = True
            self.finish_desk.send(Errand(workers.unserved(self.settings.worker_timeout_s), _say_unserved))

    def _tick(self) -> None:
        now = time.monotonic()
        for station in self.stations:
            self.books.confirm(station)
        if self.books.give_back_waiting(older_than=now - _KEPT_WAITING_S):
            self.claims.wake()  # what went back, and what is urgent, stands before where the last claim ended
        self.claim_desk.check_silence()
        self.finish_desk.check_silence()
        self.floor.check_memory()
        self.floor.check_takers()
        self.floor.check_boots()
        self._look_after_health()
        setproctitle(f"reproq worker: {self._doing()}")
        self.loop.after(_TICK_S, self._tick)

    def _look_after_health(self) -> None:
        answers = self.claim_desk.connected and self.finish_desk.connected and self.heart.is_accepted
        self.health.look(self.stations, guarded=self.keeper.up, database=answers)
        if self.health.ready and not self._started:
            self._started = True
            say(Event.WORKER_STARTED, self._describe(), pid=os.getpid(), queues=list(self.settings.queues) or None)
        self.herald.tell(self._started, self._doing())

    def _describe(self) -> str:
        queues = ", ".join(self.settings.queues) or "every queue"
        pools = ", ".join(f"{station.pool.kind.size} {station.pool.kind.name}" for station in self.stations)
        return f"worker started: {queues}; children: {pools or 'none'}"

    def _doing(self) -> str:
        queues = ",".join(self.settings.queues) or "every queue"
        running = sum(len(station.pool.busy) for station in self.stations)
        also = "draining" if self.drain.under_way else f"{len(self.leases)} claimed"
        return f"{queues}: {running} running, {also}"


def _say_unserved(waiting: list[tuple[str, str, float]]) -> None:
    for queue, task_type, seconds in waiting[:_MOST_UNSERVED]:
        say(
            Event.NOBODY_SERVES,
            f"no live worker serves {task_type} in queue {queue}; its oldest task has waited {seconds:.0f} s",
            logging.WARNING,
            queue_name=queue,
            task_type=task_type,
        )
