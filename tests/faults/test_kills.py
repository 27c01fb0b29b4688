"""Processes killed from outside: children under load, whole runners."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from functools import partial

import pytest

from tests.faults.clients import Repeated
from tests.faults.ledger import boottime_ns
from tests.faults.scene import LEASE_S, Scene
from tests.worker.harness import Worker, wait_until

TASK_S = 0.02
BACKLOG = 500
# What a worker does that has no child free.
_RECLAIM = "select from queues.claim(%s, null, null, interval '5 seconds', 0)"


@pytest.mark.rates
def test_s01_a_busy_child_killed_every_200_ms_loses_nothing_and_costs_little(scene: Scene) -> None:
    client = scene.client()

    def feed() -> None:
        if scene.open_tasks() < 2 * BACKLOG:
            client.enqueue("work", [{"s": TASK_S}] * BACKLOG, max_attempts=25)

    worker = scene.worker().ready()
    with Repeated(feed, 0.2):
        scene.wait_lines("end", 400)
        scene.weigh(worker)
        since = boottime_ns()
        time.sleep(scene.size(ci=10, full=20))
        fault_free = scene.ledger.rate(since, boottime_ns())
        since = boottime_ns()
        kills = _kill_busy_children(scene, worker, 60)
        killing = scene.ledger.rate(since, boottime_ns())
    scene.wait_all_over()
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert evidence.executions <= len(evidence.rows) + kills
    assert kills >= 200
    print(f"fault-free {fault_free:.0f}/s, {kills} kills {killing:.0f}/s, {len(evidence.rows)} tasks")
    assert killing >= scene.share(0.6) * fault_free, f"{killing:.0f}/s beside {fault_free:.0f}/s"


def _kill_busy_children(scene: Scene, worker: Worker, seconds: float) -> int:
    kills = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.2)
        here = {process.pid for process in worker.children()}
        busy = sorted(set(scene.ledger.busy()) & here)
        if busy:
            os.kill(scene.dice.choice(busy), signal.SIGKILL)
            kills += 1
    return kills


def test_s02_runners_killed_every_two_seconds_lose_nothing_and_leave_nobody(scene: Scene) -> None:
    count = scene.size(ci=1500, full=3000)
    scene.client().enqueue("work", [{"s": 0.1}] * count, max_attempts=25)
    workers = [scene.worker().ready() for _ in range(3)]
    while scene.open_tasks() > 0:
        time.sleep(2)
        victim = scene.dice.choice(workers)
        scene.kill(victim)
        killed = boottime_ns()
        wait_until(lambda: not victim.leftovers(), f"the end of {victim.leftovers()}", 2)  # noqa: B023
        workers[workers.index(victim)] = scene.worker()
        _recovered(scene, victim, killed)
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    print(f"{count} tasks, {evidence.executions} executions, {len(scene.house.workers) - 3} kills")


def test_s02_many_leases_that_run_out_at_once_are_reclaimed_once_each(scene: Scene) -> None:
    """By many that see them run out at the same moment, while workers claim at once what has been reclaimed."""
    scene.client().enqueue("work", [{"s": 0.02}] * scene.size(ci=1000, full=3000), max_attempts=25)
    workers = [scene.worker() for _ in range(3)]
    ghost = "select count(*) from queues.claim('ghost/1/x', null, null, interval '4 seconds', 500)"
    claimed = sum(scene.one(ghost) for _ in range(2))
    busy_ones = [scene.database.connect("worker") for _ in range(4)]
    for worker in workers:
        worker.ready()
    with ExitStack() as stack:
        for number, line in enumerate(busy_ones):
            stack.enter_context(Repeated(partial(line.execute, _RECLAIM, [f"busy/{number}/x"]), 0.001))
        scene.wait_all_over()
    evidence = scene.check()
    assert sum(step.is_expiry for step in evidence.steps) == claimed >= 500
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert evidence.executions == len(evidence.rows)


def _recovered(scene: Scene, victim: Worker, killed: int) -> None:
    """Everything that it held is somebody else's or free again within a lease and two seconds."""
    mine = "select count(*) from queues.task_runs where leased_until is not null and worker_id like %s"
    prefix = f"w{scene.house.workers.index(victim)}/{victim.pid}/%"
    patience = LEASE_S + 2 - (boottime_ns() - killed) / 1e9
    wait_until(lambda: scene.one(mine, prefix) == 0, "the tasks of a killed worker", patience, 0.05)
