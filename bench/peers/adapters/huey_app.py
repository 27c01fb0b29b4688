"""Huey: RedisHuey, a consumer with worker processes (-k process)."""

from __future__ import annotations

import os
import time
from typing import Any

import huey as library
import jobs
import wire

huey: Any = library.RedisHuey("bench", url=os.environ["BENCH_REDIS"])
TASKS = {kind: huey.task(name=kind)(job) for kind, job in jobs.KINDS.items()}


class Peer:
    put_so_far = 0

    def install(self) -> None:
        pass

    def version(self) -> str:
        return str(library.__version__)

    def enqueue(self, kind: str, n: int) -> float:
        watch = wire.Stopwatch()
        for number in range(n):
            TASKS[kind](number)
        self.put_so_far += n
        return watch.seconds()

    def put(self, kind: str, n: int) -> float:
        self.put_so_far += 1
        TASKS[kind](n)
        return time.time()

    def worker(self, c: int) -> list[list[str]]:
        return [[f"{wire.BIN}/huey_consumer", "huey_app.huey", "-k", "process", "-w", str(c), "-q"]]

    def remaining(self) -> int:
        return self.put_so_far - int(huey.result_count())


if __name__ == "__main__":
    wire.serve(Peer())
