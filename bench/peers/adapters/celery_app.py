"""Celery: Redis as broker and result backend, a prefork pool, defaults otherwise.

Variant acks_late is what its documentation advises to those who can't lose a job.
"""

from __future__ import annotations

import os
import time
from typing import Any

import celery
import jobs
import redis
import wire

app: Any = celery.Celery("bench", broker=os.environ["BENCH_REDIS"], backend=os.environ["BENCH_REDIS2"])
if os.environ["BENCH_VARIANT"] == "acks_late":
    app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1)
TASKS = {kind: app.task(name=kind)(job) for kind, job in jobs.KINDS.items()}


class Peer:
    def __init__(self) -> None:
        self.results = redis.Redis.from_url(os.environ["BENCH_REDIS2"])
        self.put_so_far = 0

    def install(self) -> None:
        pass

    def version(self) -> str:
        return str(celery.__version__)

    def enqueue(self, kind: str, n: int) -> float:
        watch = wire.Stopwatch()
        with app.producer_or_acquire() as producer:
            for number in range(n):
                TASKS[kind].apply_async((number,), producer=producer)
        self.put_so_far += n
        return watch.seconds()

    def put(self, kind: str, n: int) -> float:
        self.put_so_far += 1
        TASKS[kind].apply_async((n,))
        return time.time()

    def worker(self, c: int) -> list[list[str]]:
        return [[f"{wire.BIN}/celery", "-A", "celery_app", "worker", "-c", str(c), "-l", "ERROR"]]

    def remaining(self) -> int:
        """Every finished job leaves one key."""
        return self.put_so_far - int(self.results.dbsize())


if __name__ == "__main__":
    wire.serve(Peer())
