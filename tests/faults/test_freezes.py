"""Stopped processes: whoever can't say that it lives must not go on when somebody else has its work."""

from __future__ import annotations

import time

from tests.faults.evidence import Evidence
from tests.faults.ledger import boottime_ns
from tests.faults.scene import CHILDREN, LEASE_S, WARM, Scene
from tests.worker.harness import Worker, wait_until


def test_s03_a_worker_frozen_with_its_children_for_three_leases_does_nothing_after_the_thaw(scene: Scene) -> None:
    """It wakes while somebody else runs its tasks."""
    frozen = scene.worker().ready()
    scene.warm_up(frozen)
    scene.client().enqueue("quick_then_slow", [{"s": 20, "then": 2.4 * LEASE_S}] * CHILDREN, max_attempts=10)
    scene.wait_lines("start", WARM + CHILDREN)
    children = {child.pid for child in frozen.children()}
    everyone = [frozen.pid, *(process.pid for process in frozen.family())]
    froze = time.monotonic()
    scene.freeze(everyone)
    other = scene.worker().ready()
    time.sleep(max(0, froze + 3 * LEASE_S - time.monotonic()))
    thawed = boottime_ns()
    scene.thaw(everyone)
    scene.wait_all_over()
    _works_again(scene, frozen, other)
    evidence = scene.check()
    late = [line for line in evidence.lines if line.pid in children and line.ns >= thawed]
    assert not late, f"written after the thaw: {late}"
    assert _expired(evidence) == CHILDREN
    _ran_then(evidence, thawed)


def test_s04_a_runner_frozen_alone_has_no_live_child_when_its_leases_end(scene: Scene) -> None:
    scene.client().enqueue("live", [{"s": scene.size(ci=8, full=20)}] * CHILDREN, max_attempts=10)
    frozen = scene.worker().ready()
    scene.wait_lines("start", CHILDREN)
    time.sleep(scene.dice.uniform(0, 1))
    scene.freeze([frozen.pid])
    other = scene.worker().ready()
    scene.wait_lines("start", 2 * CHILDREN)
    assert scene.ledger.count("effect") == 0
    time.sleep(scene.dice.uniform(0, 2))
    thawed = boottime_ns()
    scene.thaw([frozen.pid])
    scene.wait_all_over()
    _works_again(scene, frozen, other)
    evidence = scene.check()
    assert _expired(evidence) == CHILDREN
    _ran_then(evidence, thawed)


def test_s04_the_answer_that_a_frozen_runner_finds_after_its_thaw_is_nobodys_any_more(scene: Scene) -> None:
    """Its children had answered in time; meanwhile the leases ran out, and another worker runs the tasks again."""
    scene.client().enqueue("quick_then_slow", [{"s": 1, "then": 6}] * CHILDREN, max_attempts=10)
    frozen = scene.worker().ready()
    scene.wait_lines("start", CHILDREN)
    scene.freeze([frozen.pid])
    other = scene.worker().ready()
    scene.wait_lines("start", 2 * CHILDREN)
    assert scene.ledger.count("end") == CHILDREN
    scene.thaw([frozen.pid])
    frozen.wait_event("result_dropped", CHILDREN)
    dropped = boottime_ns()
    scene.wait_all_over()
    _works_again(scene, frozen, other)
    evidence = scene.check()
    ends = [line.ns for line in evidence.lines if line.kind == "end" and line.claim == 2]
    assert len(ends) == CHILDREN and min(ends) > dropped, "the tasks were over before the stale answers came"


def _expired(evidence: Evidence) -> int:
    return sum(step.is_expiry for step in evidence.steps)


def _ran_then(evidence: Evidence, moment: int) -> None:
    """The tasks' second executions, or what came back wouldn't have met them."""
    seconds = [lines for (_, claim), lines in evidence.by_execution.items() if claim == 2]
    assert len(seconds) == CHILDREN
    assert all(lines[0].ns < moment < lines[-1].ns for lines in seconds), "nobody ran the tasks at that moment"


def _works_again(scene: Scene, thawed: Worker, other: Worker) -> None:
    """Alone, with new children."""
    scene.drain(other)
    (task,) = scene.client().enqueue("work", [{}])
    ran = "select status = 'SUCCESSFUL' and worker_id like %s from queues.task_runs where id = %s"
    wait_until(lambda: scene.one(ran, f"w0/{thawed.pid}/%", task), lambda: f"the thawed worker: {thawed.log}", 10, 0.05)


def test_s03_a_guard_frozen_alone_ends_with_its_children_and_another_one_follows(scene: Scene) -> None:
    scene.client().enqueue("live", [{"s": 1}] * 60, max_attempts=10)
    worker = scene.worker().ready()
    scene.wait_lines("effect", 4)
    guard = worker.guard().pid
    scene.freeze([guard])
    wait_until(lambda: guard not in {p.pid for p in worker.family()}, "the end of the guard", LEASE_S + 1)
    scene.wait_all_over()
    assert worker.guard().pid != guard
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
