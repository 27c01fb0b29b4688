"""A server that comes and goes: scenario 8 and 9 on durable servers of their own, 10 on a role with a hair trigger."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from reproq.db.connect import connect
from reproq.db.embedded import EmbeddedServer
from tests.conftest import SERVERS, Database
from tests.faults.clients import Client, Repeated, patiently
from tests.faults.conftest import FULL
from tests.faults.ledger import boottime_ns
from tests.faults.scene import Scene
from tests.worker.harness import wait_until

RESUMES_S = 5.0
_CLAIMED = """
    select count(*) from faults.journal
    where new_claim <> old_claim and at > clock_timestamp() - %s * interval '1 second'"""


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    folder = tmp_path_factory.mktemp("durable")
    for path in (folder, *folder.parents[:3]):  # as root the server runs as nobody
        path.chmod(path.stat().st_mode | 0o011)
    server = EmbeddedServer(folder / "server", binaries=next(iter(SERVERS.values())))
    with server:
        server.install(say=lambda _: None)
        yield server


@pytest.fixture
def own_scene(own_server: EmbeddedServer, tmp_path: Path, seed: int) -> Iterator[Scene]:
    database = Database(own_server, "reproq")
    scene = Scene(database, tmp_path, seed, FULL)
    yield scene
    scene.close()
    database.close()


def test_s08_a_server_that_crashes_five_times_loses_nothing_that_it_acknowledged(
    own_scene: Scene, own_server: EmbeddedServer
) -> None:
    scene = own_scene
    scene.worker().ready()
    scene.worker().ready()
    clients = [_enqueuing(scene.client()) for _ in range(4)]
    slowest = 0.0
    for client in clients:
        client.__enter__()
    try:
        for _ in range(5):
            time.sleep(scene.dice.uniform(1, scene.size(ci=2, full=8)))
            slowest = max(slowest, _crash_and_resume(scene, own_server))
    finally:
        for client in clients:
            client.__exit__()
    scene.wait_all_over()
    assert all(worker.process.poll() is None for worker in scene.house.workers)
    evidence = scene.check()
    unknown = sum(note.outcome == "unknown" for note in evidence.enqueues)
    print(f"{len(evidence.rows)} tasks, {unknown} unknown, resumed within {slowest:.1f} s")


def _enqueuing(client: Client) -> Repeated:
    return Repeated(patiently(lambda: client.enqueue("work", [{"s": 0.02}] * 3, max_attempts=25)), 0.1)


def _crash_and_resume(scene: Scene, server: EmbeddedServer) -> float:
    """`pg_ctl restart -m immediate`; answers how long after the server accepts connections work went on."""
    os.kill(server.pid, signal.SIGQUIT)
    server.stop()
    server.start()
    accepts = boottime_ns()
    since = lambda: (boottime_ns() - accepts) / 1e9  # noqa: E731
    wait_until(lambda: _tolerant(lambda: scene.one(_CLAIMED, since())), lambda: f"work again: {scene.log()}", RESUMES_S)
    return float(since())


def _tolerant(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except psycopg.OperationalError:
        return None
