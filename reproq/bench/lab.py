"""The bench: a server, fresh databases on it, a folder for logs, and how large everything is to be."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from reproq.bench import procfs
from reproq.bench.figures import LeftOut
from reproq.bench.sampler import Parts
from reproq.bench.server import Server
from reproq.bench.statements import statement
from reproq.db.connect import Connection, as_sql

_CHUNK = 10_000


class Database:
    """A database of one run, and how to fill and ask it."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.dsn = server.address(name)
        self.worker_dsn = server.address(name, "worker")
        self.app_dsn = server.address(name, "app")
        self.connection = server.connect(name)

    @property
    def full_name(self) -> str:
        return self.server.prefix + self.name

    def ask(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement(name), values or None)
        return list(cursor.fetchall()) if cursor.description else []

    def one(self, name: str, *values: Any) -> Any:
        rows = self.ask(name, *values)
        return rows[0][0] if rows else None

    def run(self, name: str, values: Mapping[str, Any] | None = None) -> None:
        self.connection.execute(statement(name), values)

    def enqueue(
        self,
        count: int,
        task_type: str = "bench.noop",
        *,
        queue: str = "default",
        priority: int = 0,
        delay_s: float = 0,
        payload: Mapping[str, Any] | None = None,
        chunk: int = _CHUNK,
    ) -> int:
        """Through the real function; answers the last id."""
        last, due = 0, time.monotonic() + delay_s
        shared = {"type": task_type, "queue": queue, "priority": priority}
        for start in range(0, count, chunk):  # all fall due at one moment
            values = {**shared, "payload": json.dumps(payload or {}), "count": min(chunk, count - start)}
            values["delay_s"] = max(0.0, due - time.monotonic())
            row = self.connection.execute(statement("enqueue_numbers"), values).fetchone()
            last = int(str(row[0])) if row else last
        return last

    def fill(
        self, count: int, task_type: str, *, status: str = "PENDING", priority: int = 0, delay_s: float = 0
    ) -> None:
        """Background rows that no worker of this run will touch, straight into the table."""
        values = {"count": count, "type": task_type, "status": status, "priority": priority, "delay_s": delay_s}
        self.run("fill", values)

    def settle(self, table: str = "queues.task_runs") -> None:
        """What autovacuum and the checkpointer would have done by the time it matters."""
        self.connection.execute(as_sql(f"vacuum (analyze) {table}"))
        try:
            self.connection.execute("checkpoint")
        except psycopg.errors.InsufficientPrivilege:
            pass

    def now(self) -> float:
        return float(self.one("now"))


@dataclass
class Lab:
    server: Server
    folder: Path
    scale: float = 1.0  # of the lengths of all runs
    say: Callable[[str], None] = print
    rates: dict[str, float] = field(default_factory=dict)  # measured so far, to size the next run by
    extras: dict[str, Any] = field(default_factory=dict)  # facts that the checkout's bench/ adds
    postmaster: int | None = None
    clock_s: float = 0.0  # the server's clock minus ours
    _server_pids: list[int] = field(default_factory=list)
    _looked_at: float = -1.0
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def measure_server(self) -> None:
        self.postmaster = self.server.postmaster()
        with self.server.connect() as connection:
            self.clock_s = min((_clock_gap(connection) for _ in range(5)), key=abs)

    def seconds(self, wanted: float, least: float = 0.5) -> float:
        return max(least, wanted * self.scale)

    def count(self, wanted: int, least: int = 100) -> int:
        return max(least, int(wanted * self.scale))

    def size(self, key: str, guess: float, seconds: float, least: int = 200) -> int:
        """So many tasks that a run lasts about so long, by the rate of the last run."""
        return max(least, int(self.rates.get(key, guess) * self.seconds(seconds)))

    def log(self, name: str) -> Path:
        return self.folder / f"{name}-{next(self._numbers)}.log"

    @contextmanager
    def database(self, name: str) -> Iterator[Database]:
        name = f"{name}_{next(self._numbers)}"
        self.server.make(name)
        try:
            database = Database(self.server, name)
            try:
                yield database
            finally:
                database.connection.close()
        finally:
            self.server.drop(name)

    def server_parts(self) -> Parts:
        """The server's processes, asked for once a second: reading all of /proc has its price."""
        if self.postmaster and time.monotonic() - self._looked_at > 1:
            self._server_pids, self._looked_at = procfs.family(self.postmaster), time.monotonic()
        return {"server": self._server_pids} if self.postmaster else {}

    def need_local(self) -> None:
        if self.postmaster is None:
            raise LeftOut("the server runs on another machine")


def _clock_gap(connection: Connection) -> float:
    before = time.time()
    row = connection.execute(statement("now")).fetchone()
    assert row
    return float(str(row[0])) - (before + time.time()) / 2
