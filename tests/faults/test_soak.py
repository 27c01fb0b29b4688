"""Everything at a low rate for a long time: `make soak` 30 minutes, in CI one."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import Callable

import psycopg
import pytest

from reproq.db.embedded import EmbeddedServer
from tests.faults.clients import Client, Repeated, patiently
from tests.faults.evidence import Body
from tests.faults.proxy import Proxy
from tests.faults.scene import LEASE_S, Scene, crash
from tests.faults.witness import body
from tests.worker.harness import Worker

SECONDS = float(os.environ.get("FAULTS_SOAK_S", "60"))
RARELY_S = max(12.0, SECONDS / 30)
"""Between two of the faults that stop everything for a while."""
GROWTH = {"memory_kib": (3 * 1024, 8 * 1024), "descriptors": (7, 6)}
"""What may come once, and what more in each hour. A child that is just being replaced has four descriptors, and the
three connections come and go: a short run may begin with seven less than it ends with. A leak has one each fault."""
_DDL = (
    "create index concurrently soak on queues.task_runs (created_at)",
    "drop index concurrently if exists queues.soak",
    "vacuum (analyze) queues.task_runs",
    "alter table queues.task_runs alter column trace set statistics 50",
    "reindex index concurrently queues.task_runs_lease",
)


@pytest.mark.timeout(SECONDS + 300)
def test_s20_a_soak_of_mixed_faults_loses_nothing_and_leaks_nothing(
    own_scene: Scene, own_server: EmbeddedServer
) -> None:
    scene = own_scene
    proxy = scene.proxy()
    steady = scene.worker(dsn=proxy.dsn).ready()
    rolling = [scene.worker().ready()]
    client, fickle = scene.client(), scene.client()
    scale = Scale()
    often: list[Callable[[], object]] = [
        lambda: _kill_a_child(scene, steady),
        lambda: _roll(scene, rolling),
        lambda: _kill_and_replace(scene, rolling),
        proxy.cut,
        lambda: scene.sql(scene.dice.choice(_DDL)),
        lambda: _cancel_some(scene),
        lambda: fickle.roll_back("work", {}),
    ]
    rarely: list[Callable[[], object]] = [
        lambda: _freeze(scene, rolling[0]),
        lambda: _black_hole(proxy),
        lambda: crash(own_server),
    ]
    until = time.monotonic() + SECONDS
    with Repeated(patiently(lambda: _feed(scene, client)), 0.1), Repeated(lambda: scale.weigh(steady), 1):
        happened = _mix(scene, often, rarely, until)
    scene.wait_all_over()
    evidence = scene.check()
    print(f"{len(evidence.rows)} tasks, {evidence.executions} executions, {len(scene.house.workers)} workers")
    print(f"{happened} faults that stop everything; growth an hour: {scale.growths()}")
    assert happened >= len(rarely)
    scale.assert_flat()


def _mix(scene: Scene, often: list[Callable[[], object]], rarely: list[Callable[[], object]], until: float) -> int:
    """Answers how many of the rare ones there were."""
    happened = 0
    due = time.monotonic() + RARELY_S
    while time.monotonic() < until:
        for fault in scene.dice.sample(often, len(often)):
            time.sleep(scene.dice.uniform(0.2, 1.5))
            _forgiving(fault)
        if time.monotonic() >= due:
            due += RARELY_S
            _forgiving(rarely[happened % len(rarely)])
            happened += 1
    return happened


def _freeze(scene: Scene, worker: Worker) -> None:
    """Whole, beyond its leases."""
    everyone = [worker.pid, *(process.pid for process in worker.family())]
    scene.freeze(everyone)
    time.sleep(1.2 * LEASE_S)
    scene.thaw(everyone)


def _black_hole(proxy: Proxy) -> None:
    proxy.black_hole()
    time.sleep(1.2 * LEASE_S)
    proxy.healthy()


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
    """A child that has just ended can't be killed, an index that is there can't be made, a server may be away."""
    try:
        fault()
    except (ProcessLookupError, psycopg.errors.DuplicateTable, psycopg.OperationalError):
        pass


class Scale:
    """The weights of a runner and its guard, each second."""

    def __init__(self) -> None:
        self._seen: dict[int, list[tuple[float, Body]]] = defaultdict(list)

    def weigh(self, worker: Worker) -> None:
        for pid in (worker.pid, *(p.pid for p in worker.family() if p.parent == worker.pid)):
            try:
                self._seen[pid].append((time.monotonic(), body(pid)))
            except FileNotFoundError:  # it has just ended
                pass

    def growths(self) -> list[dict[str, int]]:
        return [{name: round(_slope(seen, name) * 3600) for name in GROWTH} for seen in self._long()]

    def assert_flat(self) -> None:
        """A line is laid through what was seen after the first quarter."""
        assert len(self._long()) >= 2, "no guard lived long enough to be judged"
        for seen in self._long():
            span = seen[-1][0] - seen[0][0]
            for name, (once, hourly) in GROWTH.items():
                grown, most = _slope(seen, name) * span, once + hourly * span / 3600
                assert grown <= most, f"{name} grew by {grown:.0f} in {span:.0f} s; {most:.0f} may be"

    def _long(self) -> list[list[tuple[float, Body]]]:
        return [seen[len(seen) // 4 :] for seen in self._seen.values() if len(seen) >= SECONDS / 3]


def _slope(seen: list[tuple[float, Body]], name: str) -> float:
    return statistics.linear_regression([at for at, _ in seen], [getattr(b, name) for _, b in seen]).slope
