"""Many leases that run out at the moment at which their holders finish after all."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from reproq.db.connect import Connection
from tests.faults.clients import Repeated
from tests.faults.ledger import boottime_ns
from tests.faults.scene import Scene

LATE, LEASE_S = "late/1/x", 4.0
RECLAIMERS = FINISHERS = 4
_CLAIM = "select id, claim_no, attempt_count from queues.claim(%s, null, null, %s * interval '1 second', 500)"
_FINISH = "select queues.complete_task(%s, %s, %s, %s)"
# What a worker does that has no child free.
_RECLAIM = "select from queues.claim(%s, null, null, interval '5 seconds', 0)"

Claimed = tuple[int, int, int]
"""(task, claim number, attempt)"""


def test_s02_a_lease_that_runs_out_is_reclaimed_or_finished_and_never_both(scene: Scene) -> None:
    """The holder is a worker in another language: its work was done in time, its answers come late."""
    scene.client().enqueue("work", [{"s": 0.01}] * 1000, max_attempts=25)
    line = scene.database.connect("worker")
    claimed: list[Claimed] = []
    for _ in range(2):
        claimed += line.execute(_CLAIM, [LATE, LEASE_S]).fetchall()  # type: ignore[arg-type]
    ends = time.monotonic() + LEASE_S
    scene.dice.shuffle(claimed)
    _work(scene, claimed)
    workers = [scene.worker() for _ in range(2)]
    finishers = [scene.database.connect("worker") for _ in range(FINISHERS)]
    reclaimers = [scene.database.connect("worker") for _ in range(RECLAIMERS)]
    with ExitStack() as stack:
        time.sleep(max(0.0, ends - 0.1 - time.monotonic()))
        for number, reclaimer in enumerate(reclaimers):
            reclaim = partial(reclaimer.execute, _RECLAIM, [f"busy/{number}/x"])
            stack.enter_context(Repeated(reclaim, 0.001))
        _finish(finishers, claimed)
        scene.wait_all_over()
    assert all(worker.ready() for worker in workers)
    evidence = scene.check()
    expired = sum(step.is_expiry and step.new != "SUCCESSFUL" for step in evidence.steps)
    print(f"{len(claimed)} leases, {expired} reclaimed")
    assert len(claimed) == 1000 and 0 < expired < 1000
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert evidence.executions == 1000 + expired


def _work(scene: Scene, claimed: Sequence[Claimed]) -> None:
    with scene.ledger.path.open("a") as ledger:
        for task, claim, attempt in claimed:
            for kind in ("start", "effect", "end"):
                ledger.write(f"{kind} {task} {claim} {attempt} {boottime_ns()} {os.getpid()}\n")


def _finish(lines: Sequence[Connection], claimed: Sequence[Claimed]) -> None:
    """One by one, by several at once."""

    def finish(line: Connection, part: Sequence[Claimed]) -> None:
        for task, claim, _ in part:
            line.execute(_FINISH, [task, LATE, claim, f'{{"claim": {claim}}}'])

    with ThreadPoolExecutor(FINISHERS) as pool:
        list(pool.map(finish, lines, [claimed[n::FINISHERS] for n in range(FINISHERS)]))
