"""Procrastinate: one asyncio worker, its default psycopg connector."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from typing import Any

import jobs
import procrastinate
import psycopg
import wire

DSN = os.environ["BENCH_DSN"]
app: Any = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=DSN, max_size=int(os.environ["BENCH_C"]) + 2)
)
TASKS = {kind: app.task(name=kind)(job) for kind, job in jobs.ASYNC_KINDS.items()}


@contextmanager
def synchronous() -> Iterator[Any]:
    with app.replace_connector(procrastinate.SyncPsycopgConnector(conninfo=DSN)) as replaced, replaced.open():
        yield replaced


class Peer:
    def __init__(self) -> None:
        self.connection = psycopg.connect(DSN, autocommit=True)
        self.kept_open = ExitStack()
        self.opened: Any = None

    def install(self) -> None:
        with synchronous() as opened:
            opened.schema_manager.apply_schema()

    def version(self) -> str:
        return metadata.version("procrastinate")

    def enqueue(self, kind: str, n: int) -> float:
        with synchronous() as opened:
            watch = wire.Stopwatch()
            for chunk in wire.chunks(n):
                opened.configure_task(kind).batch_defer(*[{"n": number} for number in chunk])
            return watch.seconds()

    def put(self, kind: str, n: int) -> float:
        self.opened = self.opened or self.kept_open.enter_context(synchronous())
        self.opened.configure_task(kind).defer(n=n)
        return time.time()

    def worker(self, c: int) -> list[list[str]]:
        program = f"{wire.BIN}/procrastinate"
        return [[program, "--log-level=error", "--app=procrastinate_app.app", "worker", "-c", str(c)]]

    def remaining(self) -> int:
        query = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
        row = self.connection.execute(query).fetchone()
        return int(row[0]) if row else 0


if __name__ == "__main__":
    wire.serve(Peer())
