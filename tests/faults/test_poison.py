"""Tasks that take their process down, hang on to what they shouldn't, print too much, or lie."""

from __future__ import annotations

import heapq
import sys
from collections import Counter

import pytest

from tests.faults.evidence import Evidence
from tests.faults.ledger import boottime_ns
from tests.faults.scene import APPS, CHILDREN, LEASE_S, WARM, Scene
from tests.faults.witness import peak_kib
from tests.worker.harness import processes, wait_until

GOOD_S = 0.05
CAUSES = {
    "segfault": {"killed"},
    "abort": {"killed"},
    "exit": {"exited"},
    "kill": {"killed"},
    "memory": {"raised"},
}
LIMITS = '[[limits]]\nprefix = "hungry"\nmemory = "512MiB"\n'


def test_s06_a_hogged_interpreter_and_floods_of_stderr_cost_no_lease(scene: Scene) -> None:
    hogged, floods = scene.size(ci=(2.4 * LEASE_S, 12), full=(20, 100))
    scene.client().enqueue("hog", [{"s": hogged}], max_attempts=1)
    scene.client().enqueue("loud", [{"mib": 20}] * floods, max_attempts=1)
    worker = scene.worker().ready()
    scene.wait_lines("end", 4)
    scene.weigh(worker)
    scene.wait_all_over()
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert evidence.executions == len(evidence.rows)


@pytest.mark.rates
def test_s11_poison_ends_by_its_own_cause_and_hardly_slows_the_good(scene: Scene) -> None:
    good, poison = scene.size(ci=(400, 20), full=(1000, 50))
    client = scene.client()
    scene.worker("--config", scene.house.config(LIMITS)).ready()
    fault_free = _rate_of_good(scene, client.enqueue("work", [{"s": GOOD_S}] * good))
    hows = [list(CAUSES)[number % len(CAUSES)] for number in range(poison)]
    ids = [client.enqueue(*_poison(how), max_attempts=2)[0] for how in hows]
    poisoned = _rate_of_good(scene, client.enqueue("work", [{"s": GOOD_S}] * good))
    scene.wait_all_over()
    evidence = scene.check()
    for task, how in zip(ids, hows, strict=True):
        row = evidence.rows[task]
        assert row.status == "FAILED" and row.kind in CAUSES[how], f"{how}: {row}"
        assert row.attempts == 2
    hungry = scene.sql("select last_error from queues.task_runs where task_type = 'hungry'")
    assert hungry and all("MemoryError" in error for (error,) in hungry)
    assert all(row.status == "SUCCESSFUL" for task, row in evidence.rows.items() if task not in ids)
    print(f"fault-free {fault_free:.0f}/s, beside poison {poisoned:.0f}/s")
    assert poisoned >= scene.share(0.7) * fault_free, f"{poisoned:.0f}/s beside {fault_free:.0f}/s"


def _poison(how: str) -> tuple[str, list[dict[str, str]]]:
    """The hog runs under a limit of its worker's."""
    return ("hungry", [{}]) if how == "memory" else ("poison", [{"how": how}])


def _rate_of_good(scene: Scene, ids: list[int]) -> float:
    """From the first to the last of them."""
    open_ones = "select count(*) from queues.task_runs where id = any (%s) and completed_at is null"
    wait_until(lambda: scene.one(open_ones, ids) == 0, lambda: f"the good ones: {scene.left()}", 120, 0.05)
    mine = set(ids)
    moments = [line.ns for line in scene.ledger.lines if line.task in mine]
    return len(ids) / ((max(moments) - min(moments)) / 1e9)


TIMEOUT_S, FREE_S = 1.0, 2.0


def test_s12_a_grandchild_that_holds_the_pipes_blocks_no_slot_and_survives_nothing(scene: Scene) -> None:
    count = scene.size(ci=24, full=100)
    sleeps = 100_000 + scene.dice.randrange(100_000)
    worker = scene.worker().ready()
    scene.warm_up(worker)
    warm = set(scene.evidence().rows)
    scene.client().enqueue("litters", [{"sleeps": sleeps}] * count, max_attempts=1)
    limited = "select queues.enqueue_many('litters_and_hangs', %s::jsonb[], max_attempts => 1, timeout => %s)"
    scene.sql(limited, [f'{{"sleeps": {sleeps}, "n": "hang-{n}"}}' for n in range(count)], f"{TIMEOUT_S} s")
    scene.wait_all_over()
    survivors = [p for p in processes().values() if p.alive and p.command == f"sleep {sleeps}"]
    assert not survivors
    evidence = scene.check("I2 I3 I4 I5 I6 I7 I8 I9")  # the hanging ones were enqueued by the admin
    kinds = Counter((row.status, row.kind) for row in evidence.rows.values())
    assert kinds == {("SUCCESSFUL", None): WARM + count, ("FAILED", "timed_out"): count}
    slowest = _slowest_slot_s(evidence, warm)
    print(f"a slot was free again after {slowest:.1f} s")
    assert TIMEOUT_S <= slowest <= TIMEOUT_S + FREE_S


def _slowest_slot_s(evidence: Evidence, warm: set[int]) -> float:
    """From a task's start to the next start in its place; there is always a next one until the last few.

    A start takes the place that has been free for longest, so one that is kept from work shows.
    """
    begun = sorted((lines[0].ns, execution) for execution, lines in evidence.by_execution.items())
    places: list[tuple[int, int]] = []  # (until when its execution lasted, since when)
    slowest = 0
    for ns, execution in begun:
        if execution[0] in warm:
            continue
        if len(places) == CHILDREN:
            slowest = max(slowest, ns - heapq.heappop(places)[1])
        heapq.heappush(places, (evidence.releases[execution][0].at, ns))
    return slowest / 1e9


MORE_AT_PEAK_KIB = 64 * 1024


def test_s13_hostile_output_ends_its_own_task_and_no_other(scene: Scene) -> None:
    sys.path.insert(0, str(APPS))
    from hostile import KINDS  # type: ignore[import-not-found]

    good, each = scene.size(ci=(100, 5), full=(500, 50))
    command = f'["{sys.executable}", "-I", "-S", "{APPS / "hostile.py"}"]'
    config = scene.house.config(f'[[command]]\nprefix = "hostile"\ncommand = {command}\nprocesses = 2\n')
    worker = scene.worker("--config", config, "--max-envelope", "1MiB", processes=2).ready()
    client = scene.client()
    client.enqueue("work", [{}] * 20)
    scene.wait_lines("end", 20)
    scene.weigh(worker)
    before = peak_kib(worker.pid, anew=True)
    hows = {how: client.enqueue("hostile", [{"how": how}] * each, max_attempts=1) for how in KINDS}
    client.enqueue("work", [{"s": 0.005}] * (good // 2), max_attempts=1)
    client.enqueue("talks", [{}] * (good // 2), max_attempts=1)
    began = boottime_ns()
    scene.wait_all_over()
    print(f"{each} of {len(KINDS)} kinds among {good}: {(boottime_ns() - began) / 1e9:.1f} s")
    most = peak_kib(worker.pid)
    print(f"the runner's memory: {before} KiB, at its peak {most}")
    evidence = scene.check()
    assert most <= before + MORE_AT_PEAK_KIB
    assert len(hows) >= 12
    for how, ids in hows.items():
        kinds = {(evidence.rows[task].status, evidence.rows[task].kind) for task in ids}
        assert kinds == {("FAILED", KINDS[how])}, f"{how}: {kinds}"
    hostile = {task for ids in hows.values() for task in ids}
    assert {row.status for task, row in evidence.rows.items() if task not in hostile} == {"SUCCESSFUL"}
