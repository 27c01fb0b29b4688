"""What one task does to its child harms none of those that wait behind it in the same child, or have just begun."""

from __future__ import annotations

import signal
from itertools import chain
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.worker.harness import House, Worker, processes, wait_until

APP = """
import gc, json
from reproq.executor.child_wire import Wire

def wire():
    return next(found for found in gc.get_objects() if isinstance(found, Wire))

def says(*lines):
    os.write(wire().sink, b"".join(line + b"\\n" for line in lines))

def success(task_id, claim_no):
    return json.dumps({"v": 1, "id": task_id, "claim_no": claim_no, "success": True}).encode()

def ledger(ctx):
    with open(f"{HERE}/ledger", "a") as file:
        file.write(f"{ctx.id}\\n")

@task("neighbour")
def neighbour(payload, ctx):
    ledger(ctx)
    return "ran"

def unheard(payload, ctx):
    # From here on the runner hears nothing, until it goes on and hears all at once.
    if ctx.attempt > 1:
        raise Fail("once is enough")
    if payload["unheard"]:
        with open(f"/proc/{os.getppid()}/stat") as guard:
            os.kill(int(guard.read().rpartition(")")[2].split()[1]), signal.SIGSTOP)

@task("twice-at-once")
def twice_at_once(payload, ctx):
    unheard(payload, ctx)
    says(success(ctx.id, ctx.claim_no), success(ctx.id, ctx.claim_no))
    time.sleep(0.3)

@task("twice-later")
def twice_later(payload, ctx):
    unheard(payload, ctx)
    says(success(ctx.id, ctx.claim_no))
    time.sleep(0.2)
    says(success(ctx.id, ctx.claim_no))
    time.sleep(0.3)

@task("answers-and-goes-on")
def answers_and_goes_on(payload, ctx):
    unheard(payload, ctx)
    says(success(ctx.id, ctx.claim_no), b"hello", success(ctx.id + 1, 1))

@task("answers-early")
def answers_early(payload, ctx):
    says(success(ctx.id, ctx.claim_no))
    time.sleep(0.1)

@task("answers-and-runs-on")
def answers_and_runs_on(payload, ctx):
    says(success(ctx.id, ctx.claim_no))
    time.sleep(100)

@task("contained", contain=True)
def contained(payload, ctx):
    subprocess.Popen(["sleep", "100"])  # so that there is something to sweep
    says(success(ctx.id, ctx.claim_no))
    return "second"

@task("answers-for-others")
def answers_for_others(payload, ctx):
    unheard(payload, ctx)
    says(*(success(n, 1) for n in range(ctx.id, ctx.id + 3)))
    os._exit(0)

@task("garbage")
def garbage(payload, ctx):
    unheard(payload, ctx)
    says(b"hello")

@task("much-garbage")
def much_garbage(payload, ctx):
    unheard(payload, ctx)
    says(b"hello", b"", success(ctx.id + 2, 1), b"{}")

@task("garbage-before-its-answer")
def garbage_before_its_answer(payload, ctx):
    unheard(payload, ctx)
    os.write(wire().sink, b"hello")

@task("garbage-and-a-long-sleep")
def garbage_and_a_long_sleep(payload, ctx):
    unheard(payload, ctx)
    says(b"hello")
    time.sleep(60)

@task("too-long-an-answer")
def too_long_an_answer(payload, ctx):
    unheard(payload, ctx)
    return "x" * 3000

@task("too-long-a-line")
def too_long_a_line(payload, ctx):
    unheard(payload, ctx)
    says(b" " * 3000)

@task("much-too-long-an-answer")
def much_too_long_an_answer(payload, ctx):
    unheard(payload, ctx)
    return "x" * 300_000

@task("times-out", timeout=0.2)
def times_out(payload, ctx):
    unheard(payload, ctx)
    time.sleep(60)

@task("leaves-its-child-stuck")
def leaves_its_child_stuck(payload, ctx):
    its = wire()
    send = its.send
    def send_and_stay(line):
        send(line)
        its.send = send
        time.sleep(3)
    its.send = send_and_stay

@task("limited-and-quick", timeout=0.5)
def limited_and_quick(payload, ctx):
    pass

@task("limited", timeout=0.5)
def limited(payload, ctx):
    ledger(ctx)
    time.sleep(30)
"""
BAD = {
    "twice-at-once": "bad_envelope",
    "twice-later": None,
    "answers-and-goes-on": "bad_envelope",
    "answers-for-others": "bad_envelope",
    "garbage": "bad_envelope",
    "much-garbage": "bad_envelope",
    "garbage-before-its-answer": "bad_envelope",
    "garbage-and-a-long-sleep": "bad_envelope",
    "too-long-an-answer": "bad_envelope",
    "too-long-a-line": "bad_envelope",
    "much-too-long-an-answer": "bad_envelope",
    "times-out": "timed_out",
}


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def together(house: House, *task_types: str, max_attempts: int = 1, unheard: bool = False) -> list[int]:
    """Enqueued in one transaction, so that they are claimed together, and wait behind one another."""
    calls = ", ".join("queues.enqueue(%s, %s, max_attempts => %s)" for _ in task_types)
    given = ((name, Jsonb({"unheard": unheard}), max_attempts) for name in task_types)
    return list(house.sql(f"select {calls}", *chain.from_iterable(given))[0])


def ran(house: House) -> list[int]:
    return sorted(int(line) for line in (house.folder / "ledger").read_text().split())


def hears_when_its_child_has_done_all(house: House, worker: Worker) -> None:
    """A task has stopped it; its child runs what it has been handed until it finds nothing more, sleeps or ends."""
    wait_until(lambda: processes()[worker.pid].state == "T", "the worker to stop")
    seen: list[list[int]] = []

    def is_quiet() -> bool:
        seen.append(ran(house))
        return seen[-2:-1] == seen[-1:] and all(child.state != "R" for child in worker.children())

    wait_until(is_quiet, "the child to have done all", every_s=0.1)
    worker.send(signal.SIGCONT)


@pytest.mark.parametrize("unheard", [False, True], ids=["heard at once", "heard later"])
@pytest.mark.parametrize(("bad", "kind"), BAD.items(), ids=BAD)
def test_tasks_before_and_behind_a_bad_one_run_once_and_keep_their_results(
    house: House, bad: str, kind: str | None, unheard: bool
) -> None:
    before, behind = ["neighbour"] * (60 if unheard else 5), ["neighbour"] * 40
    ids = together(house, *before, bad, *behind, max_attempts=3 if unheard else 1, unheard=unheard)
    worker = house.worker("--max-envelope", "2KiB").ready()
    if unheard:
        hears_when_its_child_has_done_all(house, worker)
    bad_id = ids.pop(len(before))
    rows: list[dict[str, Any]] = house.finals(ids)
    assert {(row["status"], row["attempt_count"], row["result_json"]) for row in rows} == {("SUCCESSFUL", 1, "ran")}
    assert ran(house) == ids
    if kind:
        assert worker.wait_event("task_retried" if unheard else "task_failed", task_id=bad_id)["failure_kind"] == kind
    elif not unheard:  # else it depends on how much of what it says is heard together
        assert house.final(bad_id)["status"] == "SUCCESSFUL"
    assert worker.stop() == 0


def test_a_long_line_behind_a_task_that_answers_twice_is_run_once(house: House) -> None:
    for size in (1, 70_000, 200_000) * 3:
        house.enqueue("answers-early", {}, max_attempts=1)
        long = house.enqueue("neighbour", {"text": "x" * size}, max_attempts=1)
        if not house.workers:
            house.worker().ready()
        row = house.final(long)
        assert (row["status"], row["attempt_count"], row["result_json"]) == ("SUCCESSFUL", 1, "ran")


def test_a_task_behind_one_that_has_answered_and_runs_on_goes_to_another_child(house: House) -> None:
    ids = together(house, "answers-and-runs-on", "neighbour", "neighbour")
    worker = house.worker().ready()
    assert {(row["status"], row["attempt_count"]) for row in house.finals(ids)} == {("SUCCESSFUL", 1)}
    assert "takes no task" in worker.wait_event("child_recycled")["message"]


def test_of_two_answers_of_a_contained_task_the_first_stands_or_none(house: House) -> None:
    ids = house.enqueue_many("contained", [{}] * 5, max_attempts=1)
    house.worker("--processes", "2").ready()
    for row in house.finals(ids):
        assert (row["failure_kind"] or row["result_json"]) in ("bad_envelope", None), row


def test_a_task_that_its_child_never_took_isnt_timed_out_and_its_time_out_still_holds(house: House) -> None:
    first, limited = together(house, "leaves-its-child-stuck", "limited")
    worker = house.worker().ready()
    row = house.final(limited)
    assert (row["failure_kind"], row["attempt_count"], ran(house)) == ("timed_out", 1, [limited])
    assert house.final(first)["status"] == "SUCCESSFUL"
    assert "takes no task" in worker.wait_event("child_recycled")["message"]


def test_nor_is_one_whose_line_is_too_long_for_its_childs_socket(house: House) -> None:
    first = house.enqueue("leaves-its-child-stuck", {}, max_attempts=1)
    long = house.enqueue("limited-and-quick", {"text": "x" * 1_000_000}, max_attempts=1)
    worker = house.worker().ready()
    assert [(row["status"], row["attempt_count"]) for row in house.finals([first, long])] == [("SUCCESSFUL", 1)] * 2
    assert "takes no task" in worker.wait_event("child_recycled")["message"]
