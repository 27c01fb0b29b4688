"""Workers whose clocks are an hour off: the database's clock decides everything."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from tests.faults.ledger import boottime_ns
from tests.faults.scene import CHILDREN, LEASE_S, Scene
from tests.worker.harness import Worker, wait_until

_LATER = """
    select queues.enqueue_many('work', array_fill('{"s": 0.01}'::jsonb, array[20]), now() + %s * interval '1 second')"""
HOUR_S = 3600
DUE_S = 4.0
SHIM = Path(__file__).parent / "skew.c"
# Where there is no C compiler: what Python itself asks for the time, at least.
_PYTHON_SHIM = """
import os, time
_off = int(os.environ["FAULTS_SKEW"])
_time, _time_ns, _get, _get_ns = time.time, time.time_ns, time.clock_gettime, time.clock_gettime_ns
time.time = lambda: _time() + _off
time.time_ns = lambda: _time_ns() + _off * 10**9
time.clock_gettime = lambda clock: _get(clock) + (_off if clock == time.CLOCK_REALTIME else 0)
time.clock_gettime_ns = lambda clock: _get_ns(clock) + (_off * 10**9 if clock == time.CLOCK_REALTIME else 0)
"""


def skewed(folder: Path, seconds: int) -> dict[str, str]:
    """The environment of a process whose wall clock is off."""
    environ = {"FAULTS_SKEW": str(seconds)}
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        (folder / "sitecustomize.py").write_text(_PYTHON_SHIM)
        return environ
    library = folder / "skew.so"
    if not library.exists():
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SHIM], check=True)
    return environ | {"LD_PRELOAD": str(library)}


def test_s19_workers_whose_clocks_are_an_hour_off_start_nothing_early_and_lose_nothing(scene: Scene) -> None:
    ahead = scene.worker(environ=skewed(scene.folder, HOUR_S)).ready()
    behind = scene.worker(environ=skewed(scene.folder, -HOUR_S)).ready()
    client = scene.client()
    client.enqueue("live", [{"s": 2 * LEASE_S}] * CHILDREN, max_attempts=1)
    scene.wait_lines("start", CHILDREN)
    now = boottime_ns()
    later = scene.one(_LATER, DUE_S)
    due = now + int(DUE_S * 1e9)
    wait_until(
        lambda: (
            scene.one("select count(*) from queues.task_runs where id = any (%s) and completed_at is null", later) == 0
        )
    )
    assert all(line.ns >= due for line in scene.ledger.lines if line.task in later), "begun before it was due"
    last = max(line.ns for line in scene.ledger.lines if line.task in later)
    assert last <= due + 5e9, f"begun {(last - due) / 1e9:.1f} s late"
    scene.wait_all_over()
    _assert_skewed(scene, ahead, HOUR_S)
    _assert_skewed(scene, behind, -HOUR_S)
    for worker in (ahead, behind):
        _dies_and_is_followed(scene, worker)
    evidence = scene.check("I2 I3 I4 I5 I6 I7 I8 I9")  # the scheduled ones have no token
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    assert sum(step.is_expiry for step in evidence.steps) == 2 * CHILDREN
    assert evidence.executions == len(evidence.rows) + 2 * CHILDREN


def _assert_skewed(scene: Scene, worker: Worker, seconds: int) -> None:
    """In the runner, by its log, and in a child, by its answer."""
    said = datetime.fromisoformat(worker.wait_event("worker_started")["ts"]).timestamp()
    with _alone(scene, worker):
        (task,) = scene.client().enqueue("work", [{}])
        scene.wait_all_over()
    wall = scene.one("select (result_json ->> 'wall')::float from queues.task_runs where id = %s", task)
    off = [moment - time.time() for moment in (said, wall)]
    assert max(abs(each - seconds) for each in off) < 300, f"the runner's clock and its child's are off by {off}"


@contextmanager
def _alone(scene: Scene, worker: Worker) -> Iterator[None]:
    """The other runners stand still meanwhile."""
    others = [w.pid for w in scene.house.workers if w is not worker and w.process.poll() is None]
    scene.freeze(others)
    yield
    scene.thaw(others)


def _dies_and_is_followed(scene: Scene, victim: Worker) -> None:
    """A lease that its clock had lengthened would keep the tasks of a killed worker for an hour."""
    with _alone(scene, victim):
        begun = scene.ledger.count("start")
        scene.client().enqueue("live", [{"s": 1}] * CHILDREN, max_attempts=5)
        scene.wait_lines("start", begun + CHILDREN)
        scene.kill(victim)
    scene.worker(environ=skewed(scene.folder, -HOUR_S)).ready()
    scene.wait_all_over(2 * LEASE_S + 5)
