"""Processes killed from outside: children under load, whole runners."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.faults.clients import Repeated
from tests.faults.evidence import Evidence
from tests.faults.ledger import boottime_ns
from tests.faults.scene import LEASE_S, Scene, name_of
from tests.worker.harness import Process, Worker, processes, wait_until

TASK_S = 0.02
EVERY_S = 0.2
BACKLOG = 500
RUNNER_EVERY_S = 2.0


@pytest.mark.rates
def test_s01_a_busy_child_killed_every_200_ms_loses_nothing_and_costs_little(scene: Scene) -> None:
    client = scene.client()
    backlogs: list[int] = []

    def feed() -> None:
        backlogs.append(scene.open_tasks())
        if backlogs[-1] < 3 * BACKLOG:
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
    assert min(backlogs[3:]) >= BACKLOG, "the children had too little to do"
    print(f"fault-free {fault_free:.0f}/s, {kills} kills {killing:.0f}/s, {len(evidence.rows)} tasks")
    assert killing >= scene.share(0.6) * fault_free, f"{killing:.0f}/s beside {fault_free:.0f}/s"


def _kill_busy_children(scene: Scene, worker: Worker, seconds: float) -> int:
    kills = 0
    began = time.monotonic()
    for tick in range(1, int(seconds / EVERY_S) + 1):
        time.sleep(max(0.0, began + tick * EVERY_S - time.monotonic()))
        here = {process.pid for process in worker.children()}
        busy = sorted(set(scene.ledger.busy()) & here)
        if busy:
            os.kill(scene.dice.choice(busy), signal.SIGKILL)
            kills += 1
    return kills


def test_s01_tasks_that_wait_in_the_socket_of_a_killed_child_begin_once(scene: Scene) -> None:
    """Tasks of no length travel several at once (docs/decisions/013)."""
    client = scene.client()

    def feed() -> None:
        if scene.open_tasks() < 2000:
            client.enqueue("work", [{}] * 2000, max_attempts=25)

    worker = scene.worker().ready()
    with Repeated(feed, 0.05):
        scene.wait_lines("end", 400)
        kills = _kill_busy_children(scene, worker, scene.size(ci=8, full=30))
    scene.wait_all_over()
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert evidence.executions <= len(evidence.rows) + kills
    print(f"{kills} kills, {len(evidence.rows)} tasks, {evidence.executions} executions")


def test_s02_runners_killed_every_two_seconds_lose_nothing_and_leave_nobody(scene: Scene) -> None:
    count, least = scene.size(ci=(1500, 5), full=(3000, 10))
    scene.client().enqueue("work", [{"s": 0.1}] * count, max_attempts=25)
    workers = [scene.worker().ready() for _ in range(3)]
    killed: dict[str, int] = {}
    due = time.monotonic()
    while scene.open_tasks() > 0:
        due += RUNNER_EVERY_S
        time.sleep(max(0.0, due - time.monotonic()))
        assert not [
            process for worker in scene.house.workers if worker not in workers for process in worker.leftovers()
        ]
        victim = scene.dice.choice(workers)
        scene.kill(victim)
        killed[f"{name_of(victim)}/{victim.pid}/"] = boottime_ns()
        workers[workers.index(victim)] = scene.worker()
    for worker in workers:
        worker.ready()
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    slowest = _slowest_recovery_s(evidence, killed)
    print(f"{count} tasks, {evidence.executions} executions, {len(killed)} kills, recovered within {slowest:.1f} s")
    assert len(killed) >= least
    every_s = (max(killed.values()) - min(killed.values())) / 1e9 / (len(killed) - 1)
    assert every_s <= 1.5 * RUNNER_EVERY_S, f"killed every {every_s:.1f} s only"
    assert 0 < slowest <= LEASE_S + 2


def _slowest_recovery_s(evidence: Evidence, killed: dict[str, int]) -> float:
    """From a worker's death to the moment at which the last of what it held is free or somebody else's."""
    freed = [
        (step.at - moment) / 1e9
        for worker, moment in killed.items()
        for step in evidence.steps
        if step.is_release and step.worker and step.worker.startswith(worker)
    ]
    return max(freed)


def test_s02_guards_killed_under_load_lose_nothing(scene: Scene) -> None:
    scene.client().enqueue("work", [{"s": 0.1}] * scene.size(ci=300, full=1500), max_attempts=25)
    worker = scene.worker().ready()
    kills = 0
    while scene.open_tasks() > 0:
        time.sleep(scene.dice.uniform(0.5, 1.5))
        for guard in [process for process in worker.family() if process.parent == worker.pid]:
            os.kill(guard.pid, signal.SIGKILL)
            kills += 1
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert evidence.executions <= len(evidence.rows) + 4 * kills


def test_s02_what_the_tasks_of_a_killed_runner_had_started_ends_with_it(scene: Scene) -> None:
    sleeps = 200_000 + scene.dice.randrange(100_000)
    scene.client().enqueue("litters_and_hangs", [{"sleeps": sleeps}] * 4, max_attempts=1)
    worker = scene.worker().ready()
    scene.wait_lines("start", 4)

    def alive() -> list[Process]:
        return [process for process in processes().values() if process.alive and process.command == f"sleep {sleeps}"]

    wait_until(lambda: len(alive()) == 4, "four grandchildren in sessions of their own")
    scene.kill(worker)
    wait_until(lambda: not alive(), "the end of the grandchildren", 2)
    scene.worker().ready()
    scene.wait_all_over()
    evidence = scene.check()
    assert {(row.status, row.kind) for row in evidence.rows.values()} == {("FAILED", "lease_expired")}
