"""`--recycle 1`: every task gets a process of its own, forked from a template that has imported the app."""

from __future__ import annotations

import os
import signal

import pytest

from tests.worker.harness import House, Worker, is_alive, wait_until

APP = """
import atexit, random, subprocess
seen = []

def note(name, text):
    with open(f"{HERE}/{name}", "a") as file:
        file.write(f"{text}\\n")

note("imports", os.getpid())
atexit.register(lambda: note("exits", os.getpid()))

@task("looks")
def looks(payload):
    seen.append(payload)
    print("printed by", os.getpid())
    return {"pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "seen": len(seen),
            "dice": random.random(), "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))}

@task("waits")
def waits(payload):
    note("pids", os.getpid())
    while not os.path.exists(HERE + "/go"):
        time.sleep(0.01)
    return os.getpid()

@task("dies", backoff_base=0.05)
def dies(payload, ctx: Context):
    if ctx.attempt == 1:
        os.kill(os.getpid(), payload["signal"])
    return os.getpid()

@task("litters", contain=True)
def litters(payload):
    forked = os.fork()
    if forked == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        note("litter", os.getpid())
        time.sleep(600)
    os.waitpid(forked, 0)
    started = subprocess.Popen(["sleep", "600"], start_new_session=True)
    note("litter", started.pid)
    while len(open(HERE + "/litter").readlines()) < 2:
        time.sleep(0.01)
    return os.getpid()
"""


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def fresh(house: House, *arguments: str) -> Worker:
    return house.worker("--recycle", "1", *arguments).ready()


def pids(house: House, name: str) -> list[int]:
    return [int(line) for line in house.mark(name).read_text().split()]


def test_each_task_finds_the_app_as_it_was_imported_once(house: House) -> None:
    worker = fresh(house, "--processes", "2")
    rows = [row["result_json"] for row in house.finals(house.enqueue_many("looks", [{}] * 8))]
    assert {row["seen"] for row in rows} == {1}
    assert len({row["pid"] for row in rows}) == len({row["dice"] for row in rows}) == len(rows)
    assert len(pids(house, "imports")) == 1
    assert not worker.events("fork_refused")
    wait_until(
        lambda: len(set(pids(house, "exits")) & {row["pid"] for row in rows}) == len(rows), "their exit functions"
    )


def test_a_fork_is_the_guards_own_child_in_a_session_and_with_descriptors_of_its_own(house: House) -> None:
    worker = fresh(house)
    found = house.final(house.enqueue("looks"))["result_json"]
    assert (found["parent"], found["session"]) == (worker.guard().pid, found["pid"])
    assert [fd for fd in found["fds"] if 2 < fd < 100] in ([], [3])  # 3: the listing's own


def test_what_a_task_prints_is_told_with_its_own_number(house: House) -> None:
    worker = fresh(house, "--processes", "2")
    ids = house.enqueue_many("looks", [{}] * 6)
    printed = {row["id"]: f"printed by {row['result_json']['pid']}" for row in house.finals(ids)}
    wait_until(lambda: len(worker.events("task_output")) >= len(ids), "what they printed")
    assert {event["task_id"]: event["message"] for event in worker.events("task_output")} == printed


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_how_a_fork_died_is_recorded_and_its_task_runs_again(house: House, number: signal.Signals) -> None:
    fresh(house)
    task_id = house.enqueue("dies", {"signal": int(number)})
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"]) == ("SUCCESSFUL", 2)
    detail = house.detail(task_id, "retried")
    assert (detail["kind"], detail["signal"]) == ("killed", number)
    assert detail["max_rss_kb"] > 1000


def test_forks_die_with_their_guard_and_with_their_worker(house: House) -> None:
    for victim in ("guard", "worker"):
        worker = fresh(house, "--lease", "3s", "--heartbeat", "0.5s")
        house.enqueue("waits", max_attempts=1)
        child = int(house.wait_mark("pids"))
        os.kill(worker.guard().pid if victim == "guard" else worker.pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(child), f"the end of {child}")  # noqa: B023
        worker.end()
        house.mark("pids").unlink()


def test_a_template_that_is_killed_harms_no_task_and_is_replaced(house: House) -> None:
    worker = fresh(house)
    waiting = house.enqueue("waits", max_attempts=1)
    child = int(house.wait_mark("pids"))
    for _ in range(3):
        template = pids(house, "imports")[-1]
        assert template != child
        os.kill(template, signal.SIGKILL)
        wait_until(lambda: not is_alive(template), "the end of the template")  # noqa: B023
        count = len(pids(house, "imports"))
        house.mark("go").touch()
        ids = house.enqueue_many("looks", [{}] * 3, max_attempts=1)
        assert {row["status"] for row in house.finals(ids)} == {"SUCCESSFUL"}
        assert len(pids(house, "imports")) == count + 1
    assert house.final(waiting)["result_json"] == child
    assert worker.stop() == 0


def test_what_a_task_leaves_behind_is_found_though_the_template_started_its_life(house: House) -> None:
    fresh(house)
    assert house.final(house.enqueue("litters", max_attempts=1))["status"] == "SUCCESSFUL"
    left = pids(house, "litter")
    assert len(left) == 2
    assert [pid for pid in left if is_alive(pid)] == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("import threading; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()", "1 thread"),
        ("import socket; kept = socket.socketpair()", "an import opened a connection"),
    ],
)
def test_an_app_that_cant_be_forked_gets_new_interpreters_and_the_log_says_why(
    house: House, line: str, why: str
) -> None:
    house.app(APP + line + "\n")
    worker = fresh(house, "--processes", "2")
    rows = [row["result_json"] for row in house.finals(house.enqueue_many("looks", [{}] * 4))]
    assert len({row["pid"] for row in rows}) == 4
    assert len(set(pids(house, "imports"))) >= 5  # one of them was the template
    (told,) = worker.events("fork_refused")
    assert why in told["message"]
    assert worker.stop() == 0


def test_an_import_that_fails_in_the_template_is_told_once_and_ends_the_worker(house: House) -> None:
    house.app("raise RuntimeError('broken app')\n")
    worker = house.worker("--recycle", "1", "--processes", "4")
    assert worker.status() == 70
    (told,) = worker.events("child_boot_failed")
    assert "broken app" in told["output"]


def test_a_drain_ends_template_and_forks_and_burns_no_attempt(house: House) -> None:
    worker = fresh(house, "--processes", "2", "--drain-timeout", "0.2s", "--kill-grace", "0.1s")
    ids = house.enqueue_many("waits", [{}] * 4)
    house.wait_mark("pids")
    family = worker.family()
    assert worker.stop() == 0
    assert not [process for process in family if is_alive(process.pid)]
    assert {(row["status"], row["attempt_count"], row["leased_until"]) for row in map(house.row, ids)} == {
        ("PENDING", 0, None)
    }
