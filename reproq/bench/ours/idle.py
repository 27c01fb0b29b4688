"""What a worker costs while it does nothing."""

from __future__ import annotations

import time

from reproq.bench import procfs
from reproq.bench import worker as workers
from reproq.bench.figures import Figure, Step, Values, at_most
from reproq.bench.lab import Database, Lab
from reproq.bench.statements import statement
from reproq.bench.worker import Worker

SETTLING_S = 12.0  # a session that falls quiet reports what it did at its start 10 s later, as if it were done now


def idle(lab: Lab) -> Values:
    with lab.database("idle") as database, workers.started(database.worker_dsn, lab.log("idle")) as worker:
        worker.wait_ready()
        time.sleep(lab.seconds(SETTLING_S, 1))
        parts = worker.parts()
        boots = [procfs.cpu_s(pid) * 1000 for pid in parts["child"]]
        sizes = {name: max(map(procfs.rss_mb, pids), default=0.0) for name, pids in parts.items()}
        spent, queries, seconds = _watch(lab, database, worker, lab.seconds(15, 3))
    found: Values = {
        "idle.queries": queries / seconds,
        "idle.cpu": 100 * spent / seconds,
        "idle.boot": max(boots, default=0.0),
        **{f"idle.mb.{name.replace(' ', '_')}": size for name, size in sizes.items()},
    }
    return {**found, "detail": {"children": len(boots), "seconds": seconds}}


def _watch(lab: Lab, database: Database, worker: Worker, seconds: float) -> tuple[float, float, float]:
    """CPU seconds of all its processes, and transactions of its database (an idle worker's queries are one each)."""
    database.connection.close()  # whatever is counted from here on isn't ours
    pids = [pid for part in worker.parts().values() for pid in part]
    with lab.server.connect() as connection:

        def commits() -> float:
            row = connection.execute(statement("commits"), [database.full_name]).fetchone()
            assert row
            return float(str(row[0]))

        queries, cpu, began = commits(), procfs.total_cpu_s(pids), time.monotonic()
        time.sleep(seconds)
        worker.check()
        return procfs.total_cpu_s(pids) - cpu, commits() - queries, time.monotonic() - began


STEPS = (
    Step(
        "ours: idle",
        "Ours: at rest",
        idle,
        [
            Figure("idle.queries", "queries of an idle worker", "/s", bound=at_most(2)),
            Figure("idle.cpu", "CPU of an idle worker, all its processes", "% of a core", bound=at_most(0.5)),
            Figure("idle.mb.runner", "memory: runner", "MB", bound=at_most(60)),
            Figure("idle.mb.guard", "memory: guard", "MB"),
            Figure("idle.mb.child", "memory: bare child", "MB", bound=at_most(25)),
            Figure("idle.mb.system_child", "memory: system child", "MB"),
            Figure("idle.boot", "CPU of a child's start, Python's own included", "ms", bound=at_most(100)),
        ],
        31,
        repeats=1,
    ),
)
