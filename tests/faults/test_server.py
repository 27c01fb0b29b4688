"""A server that comes and goes: scenario 8 and 9 on durable servers of their own, 10 on a role with a hair trigger."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psycopg

from reproq.db.connect import as_sql, connect
from reproq.db.embedded import EmbeddedServer
from tests.faults.clients import Client, Repeated, patiently
from tests.faults.ledger import boottime_ns
from tests.faults.scene import WARM, Scene, crash
from tests.worker.harness import wait_until

RESUMES_S = 5.0
STOPPED_S = 0.4
_CLAIMED = """
    select count(*) from faults.journal
    where new_claim <> old_claim and at > clock_timestamp() - %s * interval '1 second'"""


def test_s08_a_server_that_crashes_five_times_loses_nothing_that_it_acknowledged(
    own_scene: Scene, own_server: EmbeddedServer
) -> None:
    scene = own_scene
    scene.warm_up(scene.worker().ready(), scene.worker().ready())
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
    """Answers how long after the server accepts connections work went on.

    The workers stand still meanwhile: a commit of theirs would make durable what a client was told too early.
    """
    workers = [worker.pid for worker in scene.house.workers]
    scene.freeze(workers)
    time.sleep(STOPPED_S)
    crash(server)
    scene.thaw(workers)
    accepts = boottime_ns()
    return _wait_until_claimed_since(scene, accepts)


def _wait_until_claimed_since(scene: Scene, moment: int) -> float:
    """Answers how many seconds after the moment that was."""

    def claimed() -> bool:
        try:
            return bool(scene.one(_CLAIMED, (boottime_ns() - moment) / 1e9))
        except psycopg.OperationalError:
            return False

    wait_until(claimed, lambda: f"work again: {scene.log()}", RESUMES_S)
    return (boottime_ns() - moment) / 1e9


def test_s09_a_server_that_is_read_only_for_a_while_is_waited_for_without_haste(scene: Scene) -> None:
    seconds = scene.size(ci=8, full=20)
    workers = [scene.worker().ready(), scene.worker().ready()]
    scene.warm_up(*workers)
    client = scene.client()
    client.enqueue("work", [{"s": 0.02}] * 400, max_attempts=25)
    scene.wait_lines("end", WARM + 20)
    _read_only(scene, "on")
    time.sleep(1)
    before = [_cpu_s(worker.pid) for worker in workers]
    time.sleep(seconds - 1)
    used = [_cpu_s(worker.pid) - was for worker, was in zip(workers, before, strict=True)]
    assert max(used) <= 0.15 * seconds, f"{used} s of CPU in {seconds} s"
    _read_only(scene, "off")
    accepts = boottime_ns()
    _wait_until_claimed_since(scene, accepts)
    scene.wait_all_over()
    assert all(worker.process.poll() is None for worker in workers)
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}


def _read_only(scene: Scene, value: str) -> None:
    """As after a failover: sessions end, and the new ones may not write."""
    name = scene.database.name
    with connect(scene.database.server.dsn("postgres", "postgres"), name="test") as admin:
        admin.execute(as_sql(f"alter database {name} set default_transaction_read_only = {value}"))
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_s10_a_locked_table_and_a_short_statement_timeout_only_delay(scene: Scene) -> None:
    name = scene.database.name
    scene.sql(f"alter role reproq_worker in database {name} set statement_timeout = '200ms'")
    worker = scene.worker().ready()
    scene.warm_up(worker)
    count = scene.size(ci=200, full=600)
    client = scene.client()
    client.enqueue("work", [{"s": 0.05}] * count, max_attempts=25)
    client.enqueue("live", [{"s": 3}] * 2, max_attempts=25)
    scene.wait_lines("end", WARM + 20)
    with scene.database.connect("admin").transaction() as held:
        held.connection.execute("lock table queues.task_runs in access exclusive mode")
        time.sleep(10)
    freed = time.monotonic()
    scene.wait_all_over(20)
    assert worker.process.poll() is None
    evidence = scene.check()
    assert {row.status for row in evidence.rows.values()} == {"SUCCESSFUL"}
    print(f"drained {time.monotonic() - freed:.1f} s after")
