"""RQ: `rq worker-pool`, each worker forks a process per job."""

from __future__ import annotations

import os
import time
from typing import Any

import jobs
import redis
import rq
import wire

URL = os.environ["BENCH_REDIS"]


class Peer:
    def __init__(self) -> None:
        self.redis: Any = redis.Redis.from_url(URL)
        self.queue: Any = rq.Queue("default", connection=self.redis)

    def install(self) -> None:
        pass

    def version(self) -> str:
        return str(rq.__version__)

    def enqueue(self, kind: str, n: int) -> float:
        watch = wire.Stopwatch()
        for chunk in wire.chunks(n):
            self.queue.enqueue_many([rq.Queue.prepare_data(jobs.KINDS[kind], (number,)) for number in chunk])
        return watch.seconds()

    def put(self, kind: str, n: int) -> float:
        self.queue.enqueue(jobs.KINDS[kind], n)
        return time.time()

    def worker(self, c: int) -> list[list[str]]:
        return [[f"{wire.BIN}/rq", "worker-pool", "-q", "-u", URL, "-n", str(c), "default"]]

    def remaining(self) -> int:
        waiting = self.redis.llen("rq:queue:default")
        return int(waiting + self.redis.zcard("rq:wip:default") + self.redis.zcard("rq:intermediate:default"))


if __name__ == "__main__":
    wire.serve(Peer())
