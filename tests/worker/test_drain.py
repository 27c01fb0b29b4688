"""Stopping a worker: what runs may finish, what has not begun goes back, nothing is left behind."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.worker.harness import House, Worker, wait_until

APP = """
@task("waits")
def waits(payload, ctx: Context):
    if payload.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(HERE + "/began", "a") as file:
        file.write(f"{ctx.id}\\n")
    while not os.path.exists(HERE + "/go"):
        time.sleep(0.01)
    return "finished"

@task("quick")
def quick(payload):
    return 1
"""


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def nothing_left(house: House, worker: Worker) -> None:
    wait_until(lambda: not worker.leftovers(), lambda: f"no process, but there are {worker.leftovers()}", 5)
    assert house.leased() == 0
    assert house.one("select count(*) from queues.workers") == 0
    assert house.one("select count(*) from queues.sleeper") == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT], ids=lambda number: number.name)
def test_running_tasks_finish_and_unstarted_ones_go_back_uncounted(house: House, number: signal.Signals) -> None:
    running = house.enqueue("waits", priority=9)
    waiting = house.enqueue_many("quick", [{}] * 20)
    worker = house.worker().ready()
    house.wait_mark("began")
    worker.family()
    worker.send(number)
    worker.wait_event("drain_started")
    wait_until(lambda: house.leased() == 1, "the unstarted to go back")
    later = house.enqueue("quick")
    house.mark("go").touch()
    assert worker.status() == 0
    assert house.row(running)["result_json"] == "finished"
    for task_id in [*waiting, later]:
        row = house.row(task_id)
        assert (row["status"], row["attempt_count"], row["give_backs"]) == ("PENDING", 0, 0)
    nothing_left(house, worker)


def test_an_idle_worker_stops_at_once(house: House) -> None:
    worker = house.worker("--system-processes", "1").ready()
    house.final(house.enqueue("quick"))
    house.asleep()
    worker.family()
    began = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - began < 5
    nothing_left(house, worker)


@pytest.mark.parametrize("stubborn", [False, True], ids=["ends-at-term", "ends-at-kill"])
def test_what_is_not_done_by_the_drain_timeout_is_stopped_and_goes_back_uncounted(house: House, stubborn: bool) -> None:
    again = house.enqueue("waits", {"stubborn": stubborn}, max_attempts=3)
    once = house.enqueue("waits", {"stubborn": stubborn}, max_attempts=1)
    worker = house.worker("--processes", "2", "--drain-timeout", "0.5s", "--kill-grace", "0.5s").ready()
    wait_until(lambda: house.wait_mark("began").count("\n") == 2, "both to begin")
    worker.family()
    began = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - began >= (1.0 if stubborn else 0.5)
    row = house.row(again)
    assert (row["status"], row["attempt_count"], row["give_backs"]) == ("PENDING", 0, 1)
    assert house.history(again)[-1]["event"] == "given_back"
    row = house.row(once)
    assert (row["status"], row["failure_kind"], row["attempt_count"]) == ("FAILED", "interrupted", 1)
    nothing_left(house, worker)


def test_a_task_that_was_given_back_is_run_by_the_next_worker_with_all_its_attempts(house: House) -> None:
    task_id = house.enqueue("waits", max_attempts=2)
    for count in (1, 2, 3):
        worker = house.worker("--drain-timeout", "0s", "--kill-grace", "0s").ready()
        wait_until(lambda: house.wait_mark("began").count("\n") == count, "it to begin")  # noqa: B023
        assert worker.stop() == 0
        assert house.row(task_id)["give_backs"] == count
    house.mark("go").touch()
    house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"], row["give_backs"]) == ("SUCCESSFUL", 1, 3)


def test_the_tenth_interruption_ends_a_task(house: House) -> None:
    task_id = house.enqueue("waits")
    house.sql("update queues.task_runs set give_backs = 9 where id = %s", task_id)
    worker = house.worker("--drain-timeout", "0s", "--kill-grace", "0s").ready()
    house.wait_mark("began")
    assert worker.stop() == 0
    row = house.row(task_id)
    assert (row["status"], row["failure_kind"]) == ("FAILED", "interrupted")


def test_a_second_signal_ends_the_worker_at_once(house: House) -> None:
    tasks = [house.enqueue("waits", {"stubborn": True}) for _ in range(2)]
    worker = house.worker("--processes", "2", "--drain-timeout", "60s", "--kill-grace", "60s").ready()
    wait_until(lambda: house.wait_mark("began").count("\n") == 2, "both to begin")
    worker.family()
    worker.send(signal.SIGTERM)
    worker.wait_event("drain_started")
    began = time.monotonic()
    status = worker.stop()
    assert time.monotonic() - began < 2
    assert status == 0
    assert worker.events("drain_forced")
    for task_id in tasks:
        assert (house.row(task_id)["status"], house.row(task_id)["give_backs"]) == ("PENDING", 1)
    nothing_left(house, worker)


def test_a_worker_that_can_give_nothing_back_because_the_database_is_gone_ends_with_1(house: House) -> None:
    task_id = house.enqueue("waits", {"stubborn": True})
    worker = house.worker("--drain-timeout", "60s").ready()
    house.wait_mark("began")
    worker.family()
    connection = house.database.connect("admin")
    connection.execute("alter role reproq_worker connection limit 0")
    try:
        end_sessions = (
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like %s and datname = %s"
        )
        connection.execute(end_sessions, ("reproq %", house.database.name))
        worker.wait_event("database_lost")
        worker.send(signal.SIGTERM)
        worker.wait_event("drain_started")
        began = time.monotonic()
        assert worker.stop() == 1
        assert time.monotonic() - began < 5
    finally:
        connection.execute("alter role reproq_worker connection limit -1")
    wait_until(lambda: not worker.leftovers(), worker.leftovers)
    assert house.row(task_id)["status"] == "RUNNING"  # until its lease runs out


def test_a_signal_that_lands_in_the_first_moments_stops_the_worker_too(house: House) -> None:
    for event in ("worker_started", None):
        worker = house.worker()
        if event:
            worker.wait_event(event)
        else:
            wait_until(lambda: os.path.exists(f"/proc/{worker.pid}/environ") and worker.family(), "a family")  # noqa: B023
        assert worker.stop() == 0
    wait_until(lambda: house.one("select count(*) from queues.workers") == 0, "no row of a worker")


def test_a_signal_at_any_moment_of_a_busy_time_loses_and_doubles_nothing(house: House) -> None:
    house.app("@task('n')\ndef n(payload):\n    open(HERE + '/ran', 'a').write(f\"{payload['n']}\\n\")\n    return 1\n")
    ids = house.enqueue_many("n", [{"n": n} for n in range(1500)])
    left = len(ids)
    while left:
        worker = house.worker("--processes", "2").ready()
        before = left
        done = "select count(*) from queues.task_runs where status <> 'SUCCESSFUL'"
        wait_until(lambda: house.one(done) < max(before - 250, 1), "some progress")  # noqa: B023
        assert worker.stop() == 0
        assert house.leased() == 0
        left = house.one(done)
    ran = house.mark("ran").read_text().split()
    assert sorted(map(int, ran)) == list(range(1500))
    assert {row[0] for row in house.sql("select distinct attempt_count from queues.task_runs")} == {1}


def test_a_closing_terminal_stops_it_as_term_does_but_not_under_nohup(house: House) -> None:
    ours = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a worker inherits that: the suite may run under nohup itself
    try:
        worker = house.worker().ready()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        deaf = house.worker().ready()
    finally:
        signal.signal(signal.SIGHUP, ours)
    assert worker.stop(signal.SIGHUP) == 0
    deaf.send(signal.SIGHUP)
    assert house.final(house.enqueue("quick"))["status"] == "SUCCESSFUL"
    assert not deaf.events("drain_started")
    assert deaf.stop() == 0
