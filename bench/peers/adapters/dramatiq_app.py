"""Dramatiq: Redis broker and results, as its command does on its own: a process per core, 8 threads each."""

from __future__ import annotations

import os
import time
from importlib import metadata
from typing import Any

import dramatiq
import jobs
import redis
import wire
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

URL = os.environ["BENCH_REDIS"]
broker: Any = RedisBroker(url=URL)
broker.add_middleware(Results(backend=RedisBackend(url=URL)))
dramatiq.set_broker(broker)
ACTORS = {kind: dramatiq.actor(job, actor_name=kind, store_results=True) for kind, job in jobs.KINDS.items()}


class Peer:
    def __init__(self) -> None:
        self.redis: Any = redis.Redis.from_url(URL)

    def install(self) -> None:
        pass

    def version(self) -> str:
        return metadata.version("dramatiq")

    def enqueue(self, kind: str, n: int) -> float:
        watch = wire.Stopwatch()
        for number in range(n):
            ACTORS[kind].send(number)
        return watch.seconds()

    def put(self, kind: str, n: int) -> float:
        ACTORS[kind].send(n)
        return time.time()

    def worker(self, c: int) -> list[list[str]]:
        processes = min(c, os.cpu_count() or 1)
        return [[f"{wire.BIN}/dramatiq", "dramatiq_app", "-p", str(processes), "-t", "8"]]

    def remaining(self) -> int:
        return int(self.redis.hlen("dramatiq:default.msgs"))


if __name__ == "__main__":
    wire.serve(Peer())
