"""Everything at a low rate for a long time: `make soak` 30 minutes, in CI one."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable

import psycopg
import pytest

from tests.faults.clients import Client, Repeated
from tests.faults.evidence import Body
from tests.faults.scene import Scene
from tests.faults.witness import body
from tests.worker.harness import Worker

SECONDS = float(os.environ.get("FAULTS_SOAK_S", "60"))
GROWTH_KIB = 12 * 1024
GROWTH_DESCRIPTORS = 6
_DDL = (
    "create index concurrently soak on queues.task_runs (created_at)",
    "drop index concurrently if exists queues.soak",
    "vacuum (analyze) queues.task_runs",
    "alter table queues.task_runs alter column trace set statistics 50",
    "reindex index concurrently queues.task_runs_lease",
)


@pytest.mark.timeout(SECONDS + 300)
def test_s20_a_soak_of_mixed_faults_loses_nothing_and_leaks_nothing(scene: Scene) -> None:
    proxy = scene.proxy()
    steady = scene.worker(dsn=proxy.dsn).ready()
    rolling = [scene.worker().ready()]
    client, fickle = scene.client(), scene.client()
    bodies: list[Body] = []
    faults: list[Callable[[], object]] = [
        lambda: _kill_a_child(scene, steady),
        lambda: _roll(scene, rolling),
        lambda: _kill_and_replace(scene, rolling),
        proxy.cut,
        lambda: scene.sql(scene.dice.choice(_DDL)),
        lambda: _cancel_some(scene),
        lambda: fickle.roll_back("work", {}),
    ]
    until = time.monotonic() + SECONDS
    with Repeated(lambda: _feed(scene, client), 0.1), Repeated(lambda: bodies.append(body(steady.pid)), 1):
        while time.monotonic() < until:
            for fault in scene.dice.sample(faults, len(faults)):
                time.sleep(scene.dice.uniform(0.2, 1.5))
                _forgiving(fault)
    scene.wait_all_over()
    evidence = scene.check()
    print(f"{len(evidence.rows)} tasks, {evidence.executions} executions, {len(scene.house.workers)} workers")
    _assert_flat(bodies)


def _feed(scene: Scene, client: Client) -> None:
    if scene.open_tasks() < 100:
        payloads = [{"s": scene.dice.choice((0, 0.01, 0.05))} for _ in range(20)]
        client.enqueue(scene.dice.choice(("work", "live")), payloads, max_attempts=25)


def _kill_a_child(scene: Scene, worker: Worker) -> None:
    children = worker.children()
    if children:
        os.kill(scene.dice.choice(children).pid, signal.SIGKILL)


def _roll(scene: Scene, rolling: list[Worker]) -> None:
    rolling.append(scene.worker().ready())
    rolling[0].family()
    scene.drain(rolling.pop(0))


def _kill_and_replace(scene: Scene, rolling: list[Worker]) -> None:
    scene.kill(rolling.pop())
    rolling.append(scene.worker().ready())


def _cancel_some(scene: Scene) -> None:
    scene.sql(
        "select queues.cancel(id, 'soak') from queues.task_runs where completed_at is null order by random() limit 3"
    )


def _forgiving(fault: Callable[[], object]) -> None:
    """A child that has just ended can't be killed, an index that is there can't be made."""
    try:
        fault()
    except (ProcessLookupError, psycopg.errors.DuplicateTable):
        pass


def _assert_flat(bodies: list[Body]) -> None:
    """The middle of the second quarter beside that of the last."""
    quarter = len(bodies) // 4
    early, late = bodies[quarter : 2 * quarter], bodies[-quarter:]
    for name, growth in (("memory_kib", GROWTH_KIB), ("descriptors", GROWTH_DESCRIPTORS)):
        was, is_ = (statistics.median(getattr(b, name) for b in part) for part in (early, late))
        assert is_ <= was + growth, f"{name} grew from {was} to {is_}"
