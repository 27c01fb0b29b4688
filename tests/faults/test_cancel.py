"""Cancels that race against the end of their task."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from tests.faults.evidence import Evidence
from tests.faults.ledger import boottime_ns
from tests.faults.scene import Scene

TASK_S = 0.05
WITHIN_S = 0.02
CANCELLERS = 6


@dataclass(frozen=True)
class Cancel:
    task: int
    answer: str
    answered: int


def test_s17_a_cancel_at_the_moment_of_the_end_leaves_one_final_state_and_no_effect_after_its_answer(
    scene: Scene,
) -> None:
    scene.worker().ready()
    scene.worker().ready()
    ids = scene.client().enqueue("polite", [{"s": TASK_S}] * scene.size(ci=400, full=2000))
    cancels = _cancel_all(scene, ids)
    scene.wait_all_over()
    evidence = scene.check()
    assert sorted(cancel.task for cancel in cancels) == sorted(ids)
    answers = defaultdict(set)
    for cancel in cancels:
        answers[cancel.answer].add(cancel.task)
    assert set(answers) <= {"cancelled", "stopping", "too_late"}
    print({answer: len(tasks) for answer, tasks in answers.items()})
    assert not _effects_after_cancelled(evidence, cancels)
    statuses = {task: row.status for task, row in evidence.rows.items()}
    assert all(statuses[task] == "CANCELLED" for task in answers["cancelled"] | answers["stopping"])
    assert all(statuses[task] == "SUCCESSFUL" for task in answers["too_late"])
    assert len(answers["too_late"]) >= 10
    assert len(answers["stopping"]) >= 10
    assert len(answers["cancelled"]) >= 5


def _effects_after_cancelled(evidence: Evidence, cancels: list[Cancel]) -> list[Cancel]:
    effects = {line.task: line.ns for line in evidence.lines if line.kind == "effect"}
    return [c for c in cancels if c.answer == "cancelled" and effects.get(c.task, 0) > c.answered]


def _cancel_all(scene: Scene, ids: list[int]) -> list[Cancel]:
    """Each once, up to 20 ms before or after the moment at which its effect is due."""
    found: list[Cancel] = []
    left = set(ids)
    lock = threading.Lock()
    dues: list[tuple[float, int]] = []

    def cancel() -> None:
        line = scene.database.connect("app")
        while left or dues:
            with lock:
                due = dues.pop(0) if dues else None
            if due is None:
                time.sleep(0.001)
                continue
            time.sleep(max(0.0, due[0] - time.clock_gettime(time.CLOCK_BOOTTIME)))
            row = line.execute("select queues.cancel(%s, 'raced')", [due[1]]).fetchone()
            assert row is not None
            found.append(Cancel(due[1], str(row[0]), boottime_ns()))

    threads = [threading.Thread(target=cancel, daemon=True) for _ in range(CANCELLERS)]
    for thread in threads:
        thread.start()
    seen = 0
    while left:
        lines = scene.ledger.lines
        fresh, seen = lines[seen:], len(lines)
        for line in fresh:
            if line.kind == "start" and line.task in left:
                left.discard(line.task)
                due = line.ns / 1e9 + TASK_S + scene.dice.uniform(-WITHIN_S, WITHIN_S)
                with lock:
                    dues.append((due, line.task))
                    if len(left) % 10 == 0 and left:  # now and then one that nobody has begun, most likely
                        dues.append((0.0, max(left)))
                        left.discard(max(left))
                    dues.sort()
        time.sleep(0.002)
    for thread in threads:
        thread.join()
    return found
