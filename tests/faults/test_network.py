"""A network that loses what it likes."""

from __future__ import annotations

import time

from tests.faults.ledger import boottime_ns
from tests.faults.scene import CHILDREN, LEASE_S, WARM, Scene
from tests.worker.harness import wait_until

RESUMES_S = 5.0
LATE_S = 3.2
"""Each piece, in each direction: when a claim's answer comes, most of its lease is over."""


def test_s05_a_worker_in_a_black_hole_kills_its_children_before_their_leases_end_and_comes_back(scene: Scene) -> None:
    client, proxy = scene.client(), scene.proxy()
    """The network is back while somebody else runs its tasks."""
    lonely = scene.worker(dsn=proxy.dsn).ready()
    scene.warm_up(lonely)
    client.enqueue("quick_then_slow", [{"s": 20, "then": 2.4 * LEASE_S}] * CHILDREN, max_attempts=10)
    scene.wait_lines("start", WARM + CHILDREN)
    time.sleep(scene.dice.uniform(0, 1))
    proxy.black_hole()
    fell = time.monotonic()
    scene.worker("--type-prefix", "quick").ready()
    scene.wait_lines("start", WARM + 2 * CHILDREN)
    time.sleep(max(0, 3 * LEASE_S - (time.monotonic() - fell)))
    (mine,) = client.enqueue("work", [{}])  # nobody but the lonely one serves it
    assert lonely.process.poll() is None
    healed = boottime_ns()
    proxy.healthy()
    wait_until(lambda: scene.one("select completed_at is not null from queues.task_runs where id = %s", mine))
    took = (boottime_ns() - healed) / 1e9
    assert took <= RESUMES_S, f"{took:.1f} s after the network was back"
    scene.wait_all_over()
    evidence = scene.check()
    assert sum(step.is_expiry for step in evidence.steps) == CHILDREN
    again = [lines for (_, claim), lines in evidence.by_execution.items() if claim == 2]
    assert len(again) == CHILDREN
    assert all(lines[0].ns < healed < lines[-1].ns for lines in again), "nobody ran the tasks when the network was back"
    print(f"worked again after {took:.1f} s")


def test_s07_a_finish_that_was_committed_and_not_answered_is_never_run_again(scene: Scene) -> None:
    proxy = scene.proxy()
    count, lost = scene.size(ci=(300, 15), full=(2000, 200))
    worker = scene.worker(dsn=proxy.dsn).ready()
    client = scene.client()
    scene.warm_up(worker)
    proxy.swallow(b"queues.finish(", 0.3, scene.seed)
    while (
        scene.ledger.count("start") < count or proxy.swallowed < lost
    ):  # in small batches: each finish tells of few tasks
        client.enqueue("work", [{"s": 0.005}] * 10)
        time.sleep(0.03)
    scene.wait_all_over()
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert evidence.executions == len(evidence.rows)
    print(f"{len(evidence.rows)} tasks, {proxy.swallowed} answers lost")


def test_s22_tasks_of_a_claim_that_was_not_answered_go_back_at_once_and_uncounted(scene: Scene) -> None:
    """A claim is as easily lost as a finish."""
    proxy = scene.proxy()
    proxy.swallow(b"queues.claim(", 0.3, scene.seed)
    scene.worker(dsn=proxy.dsn).ready()
    scene.client().enqueue("work", [{"s": 0.02}] * scene.size(ci=100, full=1000), max_attempts=1)
    scene.wait_all_over()
    assert proxy.swallowed >= 3
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert not [step for step in evidence.steps if step.is_expiry]


def test_s21_a_finish_that_waits_for_a_lock_costs_no_other_task_its_lease(scene: Scene) -> None:
    """Two leases long somebody holds a row that is to be finished."""
    client = scene.client()
    worker = scene.worker().ready()
    scene.warm_up(worker)
    (short,) = client.enqueue("work", [{"s": 1}], max_attempts=5)
    client.enqueue("live", [{"s": 3 * LEASE_S}] * 2, max_attempts=5)
    scene.wait_lines("start", WARM + 3)
    with scene.database.connect("admin").transaction() as held:
        held.connection.execute("select from queues.task_runs where id = %s for update", [short])
        scene.wait_lines("end", WARM + 1)
        client.enqueue("live", [{"s": LEASE_S}] * 2, max_attempts=5)  # one of them in the child that had the short one
        time.sleep(2 * LEASE_S)
        assert not worker.events("lease_lost")
    scene.wait_all_over()
    evidence = scene.check()
    ran = evidence.executions - WARM
    assert ran == 5, f"{ran} executions of 5 tasks"


def test_s22_whichever_answers_are_lost_no_task_runs_twice(scene: Scene) -> None:
    """Of claims, starts, heartbeats, finishes, give-backs and all the others, in workers that come and go."""
    proxy = scene.proxy()
    proxy.swallow(b"queues.", 0.2, scene.seed)
    client = scene.client()
    for _ in range(scene.size(ci=3, full=10)):
        client.enqueue("work", [{"s": 0.02}] * 100, max_attempts=1)
        client.enqueue("live", [{"s": 1.5}] * 4, max_attempts=1)
        worker = scene.worker(dsn=proxy.dsn).ready()
        time.sleep(scene.dice.uniform(1, 4))
        scene.drain(worker)
    scene.worker(dsn=proxy.dsn).ready()
    scene.wait_all_over()
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert evidence.executions == len(evidence.rows)
    assert not [step for step in evidence.steps if step.is_expiry]
    print(f"{len(evidence.rows)} tasks, {proxy.swallowed} answers lost")


def test_s05_a_worker_that_can_claim_but_not_beat_runs_nothing_beyond_its_lease(scene: Scene) -> None:
    """Only the heartbeats are lost, so it goes on claiming what it can't keep."""
    proxy = scene.proxy()
    proxy.refuse(b"queues.heartbeat(")
    scene.client().enqueue("live", [{"s": 2 * LEASE_S}] * CHILDREN, max_attempts=20)
    scene.worker(dsn=proxy.dsn).ready()
    scene.wait_lines("start", CHILDREN)
    time.sleep(2 * LEASE_S)
    scene.worker().ready()
    time.sleep(2 * LEASE_S)
    proxy.refuse(b"")
    scene.wait_all_over()
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}


def test_s25_answers_that_come_late_lengthen_no_lease(scene: Scene) -> None:
    """A worker must count from the moment at which it asked: what it hears was decided long before."""
    proxy = scene.proxy()
    scene.worker(dsn=proxy.dsn).ready()
    time.sleep(2)  # its lines stand, and have beaten once
    proxy.delay(LATE_S)
    scene.client().enqueue("live", [{"s": 3}] * CHILDREN, max_attempts=20)
    time.sleep(LATE_S + 1.3)
    scene.worker().ready()
    time.sleep(12)
    proxy.delay(0)
    scene.wait_all_over()
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    expired = sum(step.is_expiry for step in evidence.steps)
    assert expired >= 1, "no answer came too late"
    print(f"{expired} leases ran out, {evidence.executions} executions")
