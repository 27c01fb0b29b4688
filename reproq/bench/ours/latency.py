"""From the commit of an enqueue to the first line of the task, and from a worker's start to its first task's end."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from reproq.bench import worker as workers
from reproq.bench.figures import Figure, LeftOut, Step, Values, at_most
from reproq.bench.lab import Database, Lab
from reproq.bench.statements import statement
from reproq.bench.worker import Worker
from reproq.db.connect import Connection

SECTION = "Ours: latency"
PATIENCE_S = 30.0
WARM_UPS = 10


def to_first_line(lab: Lab) -> Values:
    """Enqueued 5 ms after the last one ended, and after a pause in which the worker has gone to sleep."""
    lab.need_local()
    with lab.database("latency") as database, workers.started(database.worker_dsn, lab.log("latency")) as worker:
        worker.wait_ready()
        with database.server.connect(database.name, "app") as app:
            _samples(WARM_UPS, lambda: 0.02, app, database, worker)
            soon = _samples(lab.count(200, 20), lambda: 0.005, app, database, worker)
            late = _samples(lab.count(30, 5), lambda: random.uniform(0.2, 1.2), app, database, worker)
    found = {
        f"latency.{name}.{q}": percentile(taken, q)
        for name, taken in (("soon", soon), ("late", late))
        for q in (50, 99)
    }
    return {**found, "detail": {"samples": [len(soon), len(late)]}}


def _samples(
    count: int, pause: Callable[[], float], app: Connection, database: Database, worker: Worker
) -> list[float]:
    found = []
    for _ in range(count):
        time.sleep(pause())
        found.append(_sample(app, database, worker) * 1000)
    return found


def _sample(app: Connection, database: Database, worker: Worker) -> float:
    row = app.execute(statement("enqueue"), ("bench.mark", "{}", "default", 0)).fetchone()
    committed = time.clock_gettime(time.CLOCK_MONOTONIC)
    assert row
    until = time.monotonic() + PATIENCE_S
    while not (answer := database.one("result_of", row[0])):
        worker.check()
        if time.monotonic() > until:
            raise LeftOut(f"a task wasn't done after {PATIENCE_S:g} s: {worker.last_line()}")
        time.sleep(0.002)
    return float(answer["at"]) - committed


def percentile(values: list[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, int(q / 100 * len(values)))]


def start(lab: Lab) -> Values:
    """From the spawn of `python -m cmd.worker` to the end of its first task, on a migrated database."""
    taken = [_start(lab) for _ in range(lab.count(3, 1))]
    return {"start.first": statistics.median(taken), "detail": {"each": taken}}


def _start(lab: Lab) -> float:
    with lab.database("start") as database:
        task = database.enqueue(1)
        with workers.started(database.worker_dsn, lab.log("start")) as worker:
            until = time.monotonic() + PATIENCE_S
            while not (ended := database.one("completed_at", task)):
                worker.check()
                if time.monotonic() > until:
                    raise LeftOut(f"no task was done {PATIENCE_S:g} s after the start: {worker.last_line()}")
                time.sleep(0.01)
    return float(ended) - lab.clock_s - worker.spawned_at


STEPS = (
    Step(
        "ours: latency",
        SECTION,
        to_first_line,
        [
            Figure("latency.soon.50", "commit → first line, idle worker, p50", "ms", bound=at_most(1.5)),
            Figure("latency.soon.99", "the same, p99", "ms", bound=at_most(4)),
            Figure("latency.late.50", "after a pause of 0.2–1.2 s, p50", "ms"),
            Figure("latency.late.99", "the same, p99", "ms"),
        ],
        32,
        local=True,
    ),
    Step(
        "ours: start",
        SECTION,
        start,
        [Figure("start.first", "worker start → first task finished", "s", bound=at_most(1))],
        6,
    ),
)
