"""Cancelling: before a task runs, while it runs, and what it may do about it."""

from __future__ import annotations

import signal

import pytest

from tests.worker.harness import House, is_alive, wait_until

APP = """
@task("polite")
def polite(payload, ctx: Context):
    open(HERE + "/began", "w").write(str(os.getpid()))
    while not ctx.cancelled():
        time.sleep(0.01)
    open(HERE + "/noticed", "w").write("yes")
    return "stopped by myself"

@task("deaf")
def deaf(payload, ctx: Context):
    if payload.get("catches"):
        def term(*_):
            open(HERE + "/termed", "w").write("yes")
            os._exit(0)
        signal.signal(signal.SIGTERM, term)
    elif payload.get("ignores"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    left = subprocess.Popen(["setsid", "sleep", "300"])
    open(HERE + "/left", "w").write(str(left.pid))
    open(HERE + "/began", "w").write(str(os.getpid()))
    while True:
        time.sleep(0.01)

@task("ok")
def ok(payload):
    return os.getpid()
"""


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def test_a_running_task_is_asked_first_and_its_lease_goes_when_it_has_stopped(house: House) -> None:
    task_id = house.enqueue("polite")
    worker = house.worker("--kill-grace", "20s").ready()
    house.wait_mark("began")
    assert house.cancel(task_id) == "stopping"
    row = house.row(task_id)
    assert row["status"] == "CANCELLED"
    assert house.wait_mark("noticed") == "yes"
    row = house.final(task_id)
    assert (row["status"], row["result_json"], row["leased_until"]) == ("CANCELLED", None, None)
    worker.wait_event("task_cancelled", task_id=task_id)
    stopped = house.detail(task_id, "stopped")
    assert None not in [stopped[name] for name in ("child", "pid", "duration_s", "cpu_s", "max_rss_kb")]
    assert house.cancel(task_id) == "cancelled"
    assert house.final(house.enqueue("ok"))["status"] == "SUCCESSFUL"


@pytest.mark.parametrize("how", ["catches", "ignores"])
def test_a_task_that_doesnt_ask_gets_term_and_then_kill_with_its_leftovers(house: House, how: str) -> None:
    task_id = house.enqueue("deaf", {how: True})
    worker = house.worker("--kill-grace", "0.3s").ready()
    child, left = int(house.wait_mark("began")), int(house.wait_mark("left"))
    assert house.cancel(task_id) == "stopping"
    row = house.final(task_id)
    assert (row["status"], row["leased_until"]) == ("CANCELLED", None)
    assert not is_alive(child)
    assert not is_alive(left)
    assert house.mark("termed").exists() == (how == "catches")
    assert house.final(house.enqueue("ok"))["status"] == "SUCCESSFUL"
    assert worker.stop() == 0


def test_a_cancelled_task_is_never_retried_though_its_process_was_killed(house: House) -> None:
    task_id = house.enqueue("deaf", {"ignores": True}, max_attempts=9)
    worker = house.worker("--kill-grace", "0.1s").ready()
    house.wait_mark("began")
    house.cancel(task_id, "customer left")
    row = house.final(task_id)
    assert (row["status"], row["last_error"], row["claim_no"]) == ("CANCELLED", "customer left", 1)
    cancelled, stopped = house.history(task_id)
    assert (cancelled["event"], stopped["event"]) == ("cancelled", "stopped")
    assert stopped["detail"]["signal"] == signal.SIGKILL
    assert stopped["detail"].keys() >= {"duration_s", "max_rss_kb", "cpu_s"}
    assert not worker.events("task_retried")


def test_a_task_that_is_cancelled_before_it_begins_never_runs(house: House) -> None:
    house.enqueue("polite", priority=9)
    waiting = house.enqueue("ok")
    house.worker("--kill-grace", "0.1s").ready()
    house.wait_mark("began")
    assert house.cancel(waiting) in ("cancelled", "stopping")
    assert house.cancel(1) == "stopping"
    row = house.final(waiting)
    assert (row["status"], row["started_at"], row["result_json"]) == ("CANCELLED", None, None)


def test_an_ended_task_cant_be_cancelled_any_more(house: House) -> None:
    task_id = house.enqueue("ok")
    house.worker().ready()
    result = house.final(task_id)["result_json"]
    assert house.cancel(task_id) == "too_late"
    row = house.row(task_id)
    assert (row["status"], row["result_json"]) == ("SUCCESSFUL", result)


def test_a_worker_that_drains_still_ends_a_cancelled_task(house: House) -> None:
    task_id = house.enqueue("deaf", {"ignores": True})
    worker = house.worker("--kill-grace", "0.2s", "--drain-timeout", "60s").ready()
    house.wait_mark("began")
    worker.send(signal.SIGTERM)
    worker.wait_event("drain_started")
    assert house.cancel(task_id) == "stopping"
    assert worker.status() == 0
    assert house.row(task_id)["status"] == "CANCELLED"


def test_cancels_around_the_end_of_tasks_leave_each_in_one_final_state_and_the_child_alone(house: House) -> None:
    house.app("@task('short')\ndef short(payload):\n    time.sleep(0.005)\n    return os.getpid()\n")
    ids = house.enqueue_many("short", [{}] * 60)
    worker = house.worker("--processes", "2", "--kill-grace", "5s").ready()
    answers = {}
    for task_id in ids:
        wait_until(lambda: house.row(task_id)["status"] != "PENDING", "it to begin")  # noqa: B023
        answers[task_id] = house.cancel(task_id)
    wait_until(lambda: house.leased() == 0, "all leases to go")
    for task_id, answer in answers.items():
        expected = "SUCCESSFUL" if answer == "too_late" else "CANCELLED"
        assert house.row(task_id)["status"] == expected, answer
    assert not worker.events("task_retried")


def test_a_thread_that_outlives_its_task_and_asks_on_takes_no_other_task_away(house: House) -> None:
    house.app(
        "import threading\n"
        "@task('watches')\ndef watches(payload, ctx: Context):\n"
        "    def ask():\n        while not ctx.cancelled(): pass\n"
        "    for _ in range(2): threading.Thread(target=ask, daemon=True).start()\n"
        "@task('quick')\ndef quick(payload): return os.getpid()\n"
    )
    house.worker().ready()
    house.final(house.enqueue("watches"))
    for _ in range(4):
        rows = house.finals(house.enqueue_many("quick", [{}] * 60, max_attempts=1))
        assert {row["status"] for row in rows} == {"SUCCESSFUL"}
