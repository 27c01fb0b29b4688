"""A scenario's stage: a database with its journal, workers, clients, proxies, a ledger, and dice to be thrown again.

Lease 5 s, heartbeat 1 s, drain 10 s, 4 children, unless a scenario says otherwise.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from reproq.db.connect import Connection, as_sql, connect
from reproq.db.embedded import EmbeddedServer
from tests.conftest import Database
from tests.faults import journal
from tests.faults.clients import Client
from tests.faults.evidence import Body, Drain, Evidence, Line
from tests.faults.invariants import violations
from tests.faults.ledger import Ledger, boottime_ns
from tests.faults.proxy import Proxy
from tests.faults.witness import Witness, body
from tests.worker.harness import House, Worker, processes, wait_until

LEASE_S, HEARTBEAT_S, DRAIN_S, CHILDREN = 5.0, 1.0, 10.0, 4
APPS = Path(__file__).parent / "apps"
_FLAGS = ("--lease", "5s", "--heartbeat", "1s", "--drain-timeout", "10s", "--kill-grace", "1s")
_OPEN = "select count(*) from queues.task_runs where completed_at is null or leased_until is not null"
_ORPHANS_S = 2.0
WARM = 20
PATIENCE_S = float(os.environ.get("FAULTS_PATIENCE_S", "180"))

Value = TypeVar("Value")


class Scene:
    def __init__(self, database: Database, folder: Path, seed: int, full: bool) -> None:
        self.database = database
        self.folder = folder
        self.seed = seed
        self.full = full
        self.dice = random.Random(seed)
        self.ledger = Ledger(folder / "ledger")
        self.drains: list[Drain] = []
        self.house = House(database, folder)
        self._clients: list[Client] = []
        self._proxies: list[Proxy] = []
        self._bodies: dict[int, Body] = {}
        self._unburied: list[str] = []
        self._connection: Connection | None = None
        self.sql(journal.INSTALL)
        self._witness = Witness(database.dsn)
        self._witness.start()

    # -- sizes

    def size(self, *, ci: Value, full: Value) -> Value:
        """CI runs the reduced set; `make faults` the whole."""
        return full if self.full else ci

    def share(self, rate: float) -> float:
        """A rate is asserted at full size; CI's machines are shared, so half of it."""
        return rate if self.full else rate / 2

    # -- who takes part

    def worker(
        self,
        *flags: str,
        dsn: str | None = None,
        processes: int = CHILDREN,
        environ: Mapping[str, str] | None = None,
    ) -> Worker:
        number = len(self.house.workers)
        own = {"FAULTS_LEDGER": str(self.ledger.path), "PYTHONPATH": f"{APPS}:{self.folder}", "REPROQ_APP": "effects"}
        size = ("--processes", str(processes), "--worker-id", f"w{number}")
        signed = f"{dsn or self.database.worker_dsn}?options=-c%20faults.writer%3Dw{number}"  # for the journal
        return self.house.worker(*_FLAGS, *size, *flags, dsn=signed, **(own | dict(environ or {})))

    def client(self) -> Client:
        self._clients.append(Client(self.database.app_dsn, f"{self.seed}-{len(self._clients)}"))
        return self._clients[-1]

    def proxy(self) -> Proxy:
        self._proxies.append(Proxy(self.database.worker_dsn))
        return self._proxies[-1]

    # -- what happens

    def sql(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """As the admin; a connection that the scenario broke is made anew."""
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = connect(self.database.dsn, name="test")
        cursor = self._connection.execute(as_sql(statement), parameters or None)
        return list(cursor.fetchall()) if cursor.description is not None else []

    def one(self, statement: str, *parameters: object) -> Any:
        return self.sql(statement, *parameters)[0][0]

    def open_tasks(self) -> int:
        try:
            return int(self.one(_OPEN))
        except psycopg.OperationalError:
            return -1

    def wait_all_over(self, patience_s: float = PATIENCE_S) -> None:
        """Until no task is open; the database may come and go meanwhile."""
        wait_until(lambda: self.open_tasks() == 0, lambda: f"the end of {self.left()}: {self.log()}", patience_s, 0.1)

    def left(self) -> list[tuple[Any, ...]]:
        """The open tasks, by state."""
        return self.sql(
            "select status, leased_until is not null, count(*), min(id), max(run_after - now()), max(attempt_count)"
            " from queues.task_runs where completed_at is null or leased_until is not null group by 1, 2"
        )

    def wait_lines(self, kind: str, count: int, patience_s: float = 60) -> list[Line]:
        wait_until(lambda: self.ledger.count(kind) >= count, lambda: f"{count} × {kind}: {self.log()}", patience_s)
        return self.ledger.lines

    def log(self) -> str:
        return "\n".join(worker.log[-4000:] for worker in self.house.workers[-3:])

    # -- how workers end

    def drain(self, worker: Worker, *signals: signal.Signals, patience_s: float = 30) -> Drain:
        """Asks a worker to end; what that did to its tasks is part of the evidence."""
        asked = boottime_ns()
        for number in signals or (signal.SIGTERM,):
            worker.send(number)
        status = worker.status(patience_s)
        self.drains.append(Drain(f"{name_of(worker)}/{worker.pid}/", asked, boottime_ns(), status))
        return self.drains[-1]

    def kill(self, worker: Worker) -> None:
        worker.family()  # so that its processes are known afterwards
        worker.process.kill()
        worker.process.wait()

    def freeze(self, pids: Iterable[int]) -> None:
        send(pids, signal.SIGSTOP)

    def thaw(self, pids: Iterable[int]) -> None:
        send(pids, signal.SIGCONT)

    # -- the evidence

    def warm_up(self, *workers: Worker) -> None:
        """Runs a few tasks, so that what comes once has come, and weighs the runners."""
        begun = self.ledger.count("end")
        self.client().enqueue("work", [{"s": 0.01}] * WARM)
        self.wait_lines("end", begun + WARM)
        wait_until(lambda: self.open_tasks() <= 0, self.left)
        for worker in workers:
            self.weigh(worker)

    def weigh(self, worker: Worker) -> None:
        """Its runner before the faults; its weight two seconds after the end must be the same."""
        self._bodies[worker.pid] = body(worker.pid)

    def check(self, names: str = "I1 I2 I3 I4 I5 I6 I7 I8 I9") -> Evidence:
        """Ends the workers and asserts the invariants."""
        weighed = self._weighed() if self._bodies else []
        self._unburied = self._still_unburied()
        self._end_workers()
        evidence = self.evidence()
        evidence.bodies = weighed
        print(*(f"runner {before} -> {after}" for before, after in weighed), sep="\n", end="")
        found = violations(evidence, names)
        if found:
            (self.folder / "violations").write_text("\n".join(found))
        assert not found, f"seed {self.seed}: {len(found)} violations: " + "\n".join(found[:20]) + f"\n{self.log()}"
        return evidence

    def evidence(self) -> Evidence:
        return Evidence(
            lines=self.ledger.lines,
            rows=journal.rows(self.sql),
            steps=journal.steps(self.sql),
            enqueues=[note for client in self._clients for note in client.notes],
            drains=self.drains,
            idlers=self._witness.idlers,
            watch=self._witness.watch,
            orphans=self._orphans(),
            zombies=self._unburied + self._still_unburied(),
        )

    def _weighed(self) -> list[tuple[Body, Body]]:
        time.sleep(_ORPHANS_S)
        alive = {worker.pid for worker in self.house.workers if worker.process.poll() is None}
        return [(before, body(pid)) for pid, before in self._bodies.items() if pid in alive]

    def _end_workers(self) -> None:
        """Those that are still there drain; all of it counts."""
        for worker in self.house.workers:
            if worker.process.poll() is None:
                worker.family()
                self.drain(worker)

    def _orphans(self) -> list[str]:
        """What is left of the workers two seconds after the last one's end."""
        until = time.monotonic() + _ORPHANS_S
        while (left := self._left()) and time.monotonic() < until:
            time.sleep(0.05)
        return left

    def _left(self) -> list[str]:
        gone = [worker for worker in self.house.workers if worker.process.poll() is not None]
        return [str(process) for worker in gone for process in worker.leftovers()]

    def _still_unburied(self) -> list[str]:
        """Zombies that stay; one that is about to be buried is none."""
        until = time.monotonic() + _ORPHANS_S
        while (left := self._zombies()) and time.monotonic() < until:
            time.sleep(0.05)
        return left

    def _zombies(self) -> list[str]:
        """Of all that was ever seen below a worker. What init has inherited, init must bury."""
        for worker in self.house.workers:
            if worker.process.poll() is None:
                worker.family()
        known = {known for worker in self.house.workers for known in worker.known.items()}
        here = processes().values()
        return [str(p) for p in here if p.state == "Z" and p.parent != 1 and (p.pid, p.born) in known]

    def close(self) -> None:
        self._witness.stop()
        for client in self._clients:
            client.close()
        if self._connection is not None:
            self._connection.close()
        try:
            self.house.close()
        finally:
            for proxy in self._proxies:
                proxy.close()


def name_of(worker: Worker) -> str:
    return worker.err.stem.replace("worker", "w")


def send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def crash(server: EmbeddedServer) -> None:
    """`pg_ctl restart -m immediate`."""
    os.kill(server.pid, signal.SIGQUIT)
    server.stop()
    server.start()
