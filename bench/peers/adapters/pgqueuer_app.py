"""PgQueuer: one asyncio (uvloop) worker, started through PgQueuer.run() (its command line breaks with newer typers).

Variant batches: batch_size 100 and no cap on concurrency, its fastest. Else concurrency C and batches of half of that,
the most that it allows then.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import Any

import asyncpg
import jobs
import uvloop
import wire
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

DSN = os.environ["BENCH_DSN"]


async def work() -> None:
    queuer: Any = PgQueuer(AsyncpgDriver(await asyncpg.connect(DSN)))
    for kind, job in jobs.ASYNC_KINDS.items():
        queuer.entrypoint(kind)(_entry(job))
    c = int(os.environ["BENCH_C"])
    batches = os.environ["BENCH_VARIANT"] == "batches"
    capped = {"batch_size": max(1, c // 2), "max_concurrent_tasks": c}
    await queuer.run(**({"batch_size": 100} if batches else capped))


def _entry(job: Any) -> Callable[[Any], Awaitable[None]]:
    async def entry(order: Any) -> None:
        n = json.loads(order.payload)["n"]
        await (job(n) if asyncio.iscoroutinefunction(job) else asyncio.to_thread(job, n))

    return entry


class Peer:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.connection: Any = self.loop.run_until_complete(asyncpg.connect(DSN))
        self.queries: Any = Queries(AsyncpgDriver(self.connection))

    def install(self) -> None:
        self.loop.run_until_complete(self.queries.install())

    def version(self) -> str:
        return metadata.version("pgqueuer")

    def enqueue(self, kind: str, n: int) -> float:
        watch = wire.Stopwatch()
        for chunk in wire.chunks(n):
            payloads = [b'{"n": %d}' % number for number in chunk]
            self.loop.run_until_complete(self.queries.enqueue([kind] * len(chunk), payloads, [0] * len(chunk)))
        return watch.seconds()

    def put(self, kind: str, n: int) -> float:
        self.loop.run_until_complete(self.queries.enqueue(kind, b'{"n": %d}' % n))
        return time.time()

    def worker(self, c: int) -> list[list[str]]:
        return [[sys.executable, os.path.abspath(__file__), "worker"]]

    def remaining(self) -> int:
        """Finished jobs leave the table for a log."""
        return int(self.loop.run_until_complete(self.connection.fetchval("select count(*) from pgqueuer")))


if __name__ == "__main__":
    uvloop.run(work()) if sys.argv[1:] == ["worker"] else wire.serve(Peer())
