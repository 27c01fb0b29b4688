"""Many workers on one database."""

from __future__ import annotations

import os
import signal

import pytest

from tests.worker.harness import House, wait_until

APP = """
@task("n")
def n(payload, ctx: Context):
    with open(HERE + "/ran", "a") as file:
        file.write(f"{payload['n']}\\n")
    return ctx.attempt
"""


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def test_ten_workers_at_once_run_every_task_exactly_once(house: House) -> None:
    workers = [house.worker("--poll-interval", "0.2s") for _ in range(10)]
    for worker in workers:
        worker.ready()
    count = 1200
    ids = house.enqueue_many("n", [{"n": n} for n in range(count)])
    rows = "select distinct status::text, attempt_count, claim_no from queues.task_runs"
    wait_until(lambda: house.sql(rows) == [("SUCCESSFUL", 1, 1)], lambda: house.sql(rows), every_s=0.1)
    assert sorted(map(int, house.mark("ran").read_text().split())) == list(range(count))
    assert len(ids) == count
    assert [worker.stop() for worker in workers] == [0] * 10
    assert house.one("select count(*) from queues.workers") == 0


def test_a_fleet_whose_workers_are_killed_one_after_the_other_still_ends_every_task(house: House) -> None:
    ids = house.enqueue_many("n", [{"n": n} for n in range(800)])
    short = ("--lease", "3s", "--heartbeat", "1s", "--poll-interval", "0.2s")
    done = "select count(*) from queues.task_runs where status = 'SUCCESSFUL'"
    for part in (100, 250, 400):
        worker = house.worker(*short).ready()
        wait_until(lambda: house.one(done) >= part, "some progress", every_s=0.002)  # noqa: B023
        os.kill(worker.pid, signal.SIGKILL)
    house.worker(*short).ready()
    rows = house.finals(ids)
    assert {row["status"] for row in rows} == {"SUCCESSFUL"}
    ran = list(map(int, house.mark("ran").read_text().split()))
    assert set(ran) == set(range(800))
    again = len(ran) - 800
    expired = house.one("select count(*) from queues.task_events where event = 'lease_expired'")
    assert again <= expired


def test_a_worker_with_the_same_name_and_pid_number_doesnt_take_anothers_tasks(house: House) -> None:
    """The fence holds a boot's own identity."""
    house.app("@task('waits')\ndef waits(payload):\n    open(HERE + '/began', 'w').write('x')\n    time.sleep(300)\n")
    task_id = house.enqueue("waits")
    house.worker("--worker-id", "same").ready()
    house.wait_mark("began")
    second = house.worker("--worker-id", "same").ready()
    assert second.stop() == 0
    row = house.row(task_id)
    assert (row["status"], row["claim_no"], row["give_backs"]) == ("RUNNING", 1, 0)
