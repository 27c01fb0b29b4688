"""Enqueueing, by the Python client and by SQL, and what a worker beside it costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from reproq.bench import worker as workers
from reproq.bench.figures import Figure, LeftOut, Step, Values, at_least
from reproq.bench.lab import Database, Lab
from reproq.bench.statements import statement
from reproq.bench.worker import Worker
from reproq.client import Client

SECTION = "Ours: enqueueing"
PATIENCE_S = 30.0
_HOUR = {"s": 3600}


def inserts(lab: Lab) -> Values:
    """By the client, each call in a transaction of its own."""
    with lab.database("enqueue") as database, Client(database.app_dsn, name="reproq bench") as client:
        client.enqueue("bench.noop", {"n": 0})
        payloads: list[Any] = [{"n": n} for n in range(lab.count(100_000, 2_000))]

        def many(few: list[Any], size: int) -> float:
            return _rate(
                len(few),
                lambda: [client.enqueue_many("bench.noop", few[n : n + size]) for n in range(0, len(few), size)],
            )

        few = payloads[: lab.count(6_000)]
        return {
            "enqueue.one": _rate(len(few), lambda: [client.enqueue("bench.noop", payload) for payload in few]),
            "enqueue.1000": many(payloads[: len(payloads) // 1000 * 1000], 1000),
            "enqueue.all": many(payloads, len(payloads)),
        }


def _rate(count: int, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def tomorrow(lab: Lab) -> Values:
    """Tasks that are due tomorrow, one a commit: with no worker, with one asleep, with one whose children are busy."""
    with lab.database("tomorrow") as database:
        alone = _tomorrow_rate(lab, database)
        with workers.started(database.worker_dsn, lab.log("asleep")) as worker:
            worker.wait_ready()
            _until(lambda: database.one("sleepers") > 0, worker, "lay down")
            asleep = _tomorrow_rate(lab, database)
        with workers.started(database.worker_dsn, lab.log("busy")) as worker:
            worker.wait_ready()
            database.enqueue(2, "bench.sleep", payload=_HOUR)
            _until(lambda: database.one("running") >= 1, worker, "began a task")
            busy = _tomorrow_rate(lab, database)
            worker.kill()
    return {"enqueue.alone": alone, "enqueue.asleep": asleep, "enqueue.busy": busy}


def _tomorrow_rate(lab: Lab, database: Database) -> float:
    done, began, seconds = 0, time.perf_counter(), lab.seconds(3)
    with database.server.connect(database.name, "app") as connection:
        connection.prepare_threshold = 5
        while time.perf_counter() < began + seconds:
            connection.execute(statement("enqueue_tomorrow"))
            done += 1
    return done / (time.perf_counter() - began)


def _until(condition: Callable[[], bool], worker: Worker, what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        worker.check()
        if time.monotonic() > until:
            raise LeftOut(f"the worker never {what}: {worker.last_line()}")
        time.sleep(0.02)


STEPS = (
    Step(
        "ours: enqueue",
        SECTION,
        inserts,
        [
            Figure("enqueue.one", "one task a commit, Client.enqueue", "/s", "floor.insert", bound=at_least(0.7)),
            Figure("enqueue.1000", "1,000 a call, Client.enqueue_many", "/s", "floor.insert.many", bound=at_least(0.5)),
            Figure("enqueue.all", "100,000 in one call", "/s", "floor.insert.many", bound=at_least(0.5)),
        ],
        7,
    ),
    Step(
        "ours: enqueue for tomorrow",
        SECTION,
        tomorrow,
        [
            Figure("enqueue.alone", "due tomorrow, no worker", "/s", "floor.insert"),
            Figure("enqueue.asleep", "due tomorrow, a worker asleep", "/s", "enqueue.alone", bound=at_least(0.9)),
            Figure(
                "enqueue.busy",
                "due tomorrow, a worker with all children busy",
                "/s",
                "enqueue.alone",
                bound=at_least(0.9),
            ),
        ],
        14,
    ),
)
