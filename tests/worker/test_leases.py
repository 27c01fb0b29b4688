"""Leases: kept by heartbeats, never outlived by a child, taken over by another worker, fenced against the late."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.worker.harness import House, Worker, is_alive, wait_until

SHORT = ("--lease", "4s", "--heartbeat", "1s")

APP = """
@task("ticks", backoff_base=0.05)
def ticks(payload, ctx: Context):
    path = f"{HERE}/ticks-{ctx.claim_no}"
    with open(path + ".pid", "w") as file:
        file.write(str(os.getpid()))
    end = time.monotonic() + payload.get("for", 300)
    while time.monotonic() < end:
        with open(path, "a") as file:
            file.write(f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)}\\n")
        if os.path.exists(HERE + "/enough"):
            break
        time.sleep(0.02)
    return ctx.claim_no

@task("stubborn", backoff_base=0.05)
def stubborn(payload, ctx: Context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return ticks(payload, ctx)
"""


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def ticks(house: House, claim_no: int = 1) -> list[int]:
    path = house.mark(f"ticks-{claim_no}")
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def begun(house: House, claim_no: int = 1) -> int:
    """Wait for the first effect of an execution; answers the pid of its child."""
    wait_until(lambda: ticks(house, claim_no), lambda: f"claim {claim_no} to begin: {house.story()}")
    return int(wait_until(lambda: house.mark(f"ticks-{claim_no}.pid").read_text()))  # two tasks may write it


def lease_end_ns(house: House, task_id: int) -> int:
    """The end of its lease by this machine's clock, which is the server's too."""
    left = house.one(
        "select extract(epoch from leased_until - clock_timestamp()) from queues.task_runs where id = %s", task_id
    )
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(float(left) * 1e9)


def freeze(worker: Worker, *, with_guard: bool) -> None:
    pids = [worker.pid] + ([worker.guard().pid] if with_guard else [])
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "a stop")  # noqa: B023


@pytest.mark.parametrize("with_guard", [False, True], ids=["runner", "runner-and-guard"])
def test_the_children_of_a_frozen_worker_are_dead_before_its_lease_ends_and_do_nothing_after_the_thaw(
    house: House, with_guard: bool
) -> None:
    task_id = house.enqueue("stubborn")
    worker = house.worker(*SHORT).ready()
    child = begun(house)
    freeze(worker, with_guard=with_guard)
    end = lease_end_ns(house, task_id)
    wait_until(lambda: not is_alive(child), "the end of the child")
    assert time.clock_gettime_ns(time.CLOCK_BOOTTIME) < end
    seen = ticks(house)
    assert seen[-1] < end
    other = house.worker(*SHORT).ready()
    begun(house, 2)
    os.kill(worker.pid, signal.SIGCONT)
    worker.wait_event("child_died") if not with_guard else worker.wait_event("guard_died")
    assert ticks(house) == seen
    house.mark("enough").touch()
    row = house.final(task_id)
    assert (row["status"], row["result_json"], row["attempt_count"]) == ("SUCCESSFUL", 2, 2)
    assert str(other.pid) in row["worker_id"]
    assert [event["event"] for event in house.history(task_id)] == ["lease_expired"]
    assert (worker.stop(), other.stop()) == (0, 0)


def test_the_children_of_a_killed_worker_die_at_once_and_another_worker_takes_over_after_the_lease(
    house: House,
) -> None:
    task_id = house.enqueue("stubborn")
    worker = house.worker(*SHORT).ready()
    child = begun(house)
    family = [p.pid for p in worker.family()]
    end = lease_end_ns(house, task_id)
    killed_at = time.monotonic()
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(child), "the end of the child")
    assert time.monotonic() - killed_at < 2
    wait_until(lambda: not any(map(is_alive, family)), "the end of guard and children")
    house.worker(*SHORT).ready()
    begun(house, 2)
    assert ticks(house, 2)[0] >= end - 50_000_000
    house.mark("enough").touch()
    assert house.final(task_id)["result_json"] == 2


def test_a_task_that_may_run_once_and_whose_worker_was_killed_ends_failed(house: House) -> None:
    task_id = house.enqueue("ticks", max_attempts=1)
    worker = house.worker("--lease", "3s", "--heartbeat", "0.5s").ready()
    begun(house)
    os.kill(worker.pid, signal.SIGKILL)
    house.worker("--lease", "3s", "--heartbeat", "0.5s").ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"], row["claim_no"]) == ("FAILED", "lease_expired", 1)


def test_a_task_that_takes_longer_than_its_lease_keeps_it_by_heartbeats(house: House) -> None:
    task_id = house.enqueue("ticks", {"for": 5.5}, max_attempts=1)
    worker = house.worker(*SHORT).ready()
    house.worker(*SHORT).ready()
    row = house.final(task_id)
    assert (row["status"], row["claim_no"], row["attempt_count"]) == ("SUCCESSFUL", 1, 1)
    assert not worker.events("lease_lost")


def test_the_shortest_lease_that_is_accepted_lasts_from_heartbeat_to_heartbeat(house: House) -> None:
    task_id = house.enqueue("ticks", {"for": 3}, max_attempts=1)
    house.worker("--lease", "3s").ready()
    assert house.final(task_id)["status"] == "SUCCESSFUL"


def test_the_start_of_a_task_is_on_its_row_after_a_heartbeat_while_it_runs(house: House) -> None:
    task_id = house.enqueue("ticks")
    house.worker(*SHORT).ready()
    begun(house)
    row = house.wait_row(task_id, lambda row: row["started_at"] is not None, "started")
    assert row["status"] == "RUNNING"
    house.mark("enough").touch()
    house.final(task_id)


def test_a_lost_lease_kills_the_child_and_drops_what_it_says(house: House) -> None:
    task_id = house.enqueue("stubborn")
    worker = house.worker(*SHORT).ready()
    child = begun(house)
    house.sql("update queues.task_runs set claim_no = claim_no + 1, worker_id = 'other/1/x' where id = %s", task_id)
    worker.wait_event("lease_lost", task_id=task_id)
    wait_until(lambda: not is_alive(child), "the end of the child")
    row = house.row(task_id)
    assert (row["status"], row["claim_no"], row["worker_id"]) == ("RUNNING", 2, "other/1/x")
    house.sql("update queues.task_runs set leased_until = now() - interval '1 second' where id = %s", task_id)
    begun(house, 3)
    house.mark("enough").touch()
    assert house.final(task_id)["result_json"] == 3
    assert worker.stop() == 0


def test_the_result_of_a_task_whose_lease_was_lost_unnoticed_is_dropped(house: House) -> None:
    task_id = house.enqueue("ticks", max_attempts=5)
    worker = house.worker("--heartbeat", "10s").ready()
    begun(house)
    house.sql("update queues.task_runs set claim_no = claim_no + 1, worker_id = 'other/1/x' where id = %s", task_id)
    house.mark("enough").touch()
    worker.wait_event("result_dropped", task_id=task_id)
    row = house.row(task_id)
    assert (row["status"], row["claim_no"], row["result_json"]) == ("RUNNING", 2, None)


def test_two_workers_of_the_same_name_have_different_fences(house: House) -> None:
    workers = [house.worker("--worker-id", "twin").ready() for _ in range(2)]
    ids = house.one("select array_agg(distinct id) from queues.workers")
    wait_until(lambda: house.one("select count(*) from queues.workers") == 2, "two workers")
    assert ids
    fences = {row[0].split("/")[2] for row in house.sql("select id from queues.workers")}
    assert len(fences) == 2
    for worker in workers:  # shown to nobody
        assert all(fence not in worker.log for fence in fences)


def test_a_row_that_somebody_has_locked_for_longer_than_a_heartbeat_is_neither_lost_nor_holds_up_the_others(
    house: House,
) -> None:
    locked, other = house.enqueue("ticks", max_attempts=5), house.enqueue("ticks", {"for": 2.5})
    worker = house.worker("--lease", "9s", "--heartbeat", "0.5s", "--processes", "2").ready()
    wait_until(lambda: house.leased() == 2, "both to run")
    begun(house)
    connection = house.database.connect("admin")
    connection.execute("begin")
    connection.execute("select from queues.task_runs where id = %s for update", (locked,))
    assert house.final(other)["status"] == "SUCCESSFUL"
    connection.execute("commit")
    house.mark("enough").touch()
    row = house.final(locked)
    assert (row["status"], row["claim_no"]) == ("SUCCESSFUL", 1)
    assert not worker.events("lease_lost")


def test_what_a_look_finds_that_takes_longer_than_a_lease_is_done(house: House) -> None:
    """An old snapshot has left so many dead entries: the lease has only begun when the claim is answered."""
    definition = str(house.one("select pg_get_functiondef('internal.lanes_of'::regproc)"))
    slow = definition.replace("STABLE", "VOLATILE").replace("begin\n", "begin\n    perform pg_sleep(4.5);\n", 1)
    assert slow.count("pg_sleep") == 1
    house.sql(slow.replace("%", "%%"))
    task_id = house.enqueue("ticks", {"for": 0})
    worker = house.worker(*SHORT).ready()
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"], row["give_backs"]) == ("SUCCESSFUL", 1, 0)
    assert not worker.events("child_died")


def test_a_worker_whose_looks_take_long_doesnt_look_for_what_waits_where_it_knows(house: House) -> None:
    """It ran two tasks after each look: the pool for functions found nothing, and sent the worker to look anew."""
    definition = str(house.one("select pg_get_functiondef('internal.lanes_of'::regproc)"))
    slow = definition.replace("STABLE", "VOLATILE").replace(
        "begin\n", "begin\n    perform pg_sleep(0.5), nextval('public.looks') where known = '{}';\n", 1
    )
    assert slow.count("pg_sleep") == 1
    house.sql("create sequence public.looks; grant usage on sequence public.looks to public")
    house.sql(slow.replace("%", "%%"))
    worker = house.worker("--processes", "2", "--system-processes", "1").ready()
    wait_until(lambda: house.one("select count(*) from queues.sleeper") == 1, "the worker to sleep")
    before = house.one("select last_value from public.looks")
    for _ in range(60):
        house.enqueue("ticks", {"for": 0.03})
    wait_until(lambda: house.one("select count(*) from queues.task_runs where completed_at is null") == 0, "the end")
    assert house.one("select last_value from public.looks") - before < 20
    assert worker.events("claim_index_bloated")
