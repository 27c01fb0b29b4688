"""The end of a worker on request: no attempt burned, nothing held, nobody left."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

import pytest

from tests.faults.ledger import boottime_ns
from tests.faults.scene import CHILDREN, Scene
from tests.worker.harness import Worker, wait_until

LEAST_DRAIN_S = 0.8


def test_s14_a_worker_asked_to_end_at_any_moment_burns_no_attempt_and_holds_nothing(scene: Scene) -> None:
    client = scene.client()
    for _ in range(scene.size(ci=20, full=200)):
        if scene.open_tasks() < 200:
            client.enqueue("work", [{"s": 0.02}] * 400, max_attempts=3)
        worker = scene.worker()
        _wait_until_it_listens(worker)
        time.sleep(scene.dice.uniform(0, LEAST_DRAIN_S))
        scene.drain(worker)
    scene.worker().ready()
    scene.wait_all_over()
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert {row.attempts for row in evidence.rows.values()} == {1}


def _wait_until_it_listens(worker: Worker) -> None:
    """Until its own handler is there, TERM ends it as it ends any starting program: by the signal, nothing claimed."""
    wait_until(lambda: _caught(worker.pid) >> (signal.SIGTERM - 1) & 1, "a handler for TERM", every_s=0.002)


def _caught(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16)


def test_s15_tasks_that_ignore_term_are_killed_then_given_back_and_only_then_run_again(scene: Scene) -> None:
    scene.client().enqueue("stubborn", [{"s": scene.size(ci=10, full=20)}] * CHILDREN, max_attempts=3)
    worker = scene.worker("--drain-timeout", "5s").ready()
    scene.wait_lines("start", CHILDREN)
    scene.worker().ready()
    drain = scene.drain(worker)
    took = (drain.gone - drain.asked) / 1e9
    assert 5 <= took <= 8, f"it took {took:.1f} s"
    assert scene.one("select count(*) from queues.task_runs where give_backs = 1 and attempt_count <= 1") == CHILDREN
    scene.wait_all_over()
    evidence = scene.check()
    assert evidence.executions == 2 * CHILDREN
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}


TERM, INT, QUIT = signal.SIGTERM, signal.SIGINT, signal.SIGQUIT


@pytest.mark.parametrize(
    "signals", [(TERM,) * 5, (TERM, INT), (QUIT, QUIT), (INT, TERM)], ids=lambda s: "+".join(n.name for n in s)
)
def test_s16_a_second_signal_ends_a_busy_worker_within_two_seconds(
    scene: Scene, signals: tuple[signal.Signals, ...]
) -> None:
    scene.client().enqueue("stubborn", [{"s": 3}] * CHILDREN, max_attempts=3)
    worker = scene.worker().ready()
    scene.wait_lines("start", CHILDREN)
    worker.send(signals[0])
    worker.wait_event("drain_started")
    drain = scene.drain(worker, *signals[1:])
    assert drain.gone - drain.asked <= 2e9
    scene.worker().ready()
    scene.wait_all_over()
    scene.check()


def test_s16_a_signal_is_handled_whichever_thread_it_hits(scene: Scene) -> None:
    threads = 1
    number = 0
    while number < threads:
        worker = scene.worker().ready()
        scene.wait_lines("end", _one_more(scene))
        tids = sorted(int(name) for name in os.listdir(f"/proc/{worker.pid}/task"))
        threads = max(threads, len(tids))
        scene.client().enqueue("work", [{"s": 0.5}] * CHILDREN)
        asked = boottime_ns()
        _aim(worker.pid, tids[min(number, len(tids) - 1)], scene.dice.choice([TERM, INT, QUIT]))
        worker.wait_event("drain_started")
        scene.drain(worker)
        assert boottime_ns() - asked <= 4e9
        number += 1
    assert threads >= 2  # the loop and the heart
    scene.worker().ready()
    scene.wait_all_over()
    scene.check()


def _one_more(scene: Scene) -> int:
    ended = scene.ledger.count("end")
    scene.client().enqueue("work", [{}])
    return ended + 1


def _aim(pid: int, tid: int, number: signal.Signals) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.tgkill(pid, tid, int(number)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
