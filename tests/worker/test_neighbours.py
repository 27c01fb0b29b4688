"""What one task does to its child harms none of those that wait behind it in the same child, or have just begun."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worker.harness import House

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

@task("twice-at-once")
def twice_at_once(payload, ctx):
    says(success(ctx.id, ctx.claim_no), success(ctx.id, ctx.claim_no))
    time.sleep(0.3)

@task("twice-later")
def twice_later(payload, ctx):
    says(success(ctx.id, ctx.claim_no))
    time.sleep(0.2)
    says(success(ctx.id, ctx.claim_no))
    time.sleep(0.3)

@task("answers-for-others")
def answers_for_others(payload, ctx):
    says(*(success(n, 1) for n in range(ctx.id, ctx.id + 3)))
    os._exit(0)

@task("garbage")
def garbage(payload, ctx):
    says(b"hello")

@task("garbage-and-a-long-sleep")
def garbage_and_a_long_sleep(payload, ctx):
    says(b"hello")
    time.sleep(60)

@task("too-long-an-answer")
def too_long_an_answer(payload, ctx):
    says(b" " * 3000)

@task("times-out", timeout=0.2)
def times_out(payload, ctx):
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

@task("limited", timeout=0.5)
def limited(payload, ctx):
    ledger(ctx)
    time.sleep(30)
"""
BAD = {
    "twice-at-once": "bad_envelope",
    "twice-later": None,
    "answers-for-others": "bad_envelope",
    "garbage": "bad_envelope",
    "garbage-and-a-long-sleep": "bad_envelope",
    "too-long-an-answer": "bad_envelope",
    "times-out": "timed_out",
}


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def together(house: House, *task_types: str) -> list[int]:
    """Enqueued in one transaction, so that they are claimed together, and wait behind one another."""
    calls = ", ".join("queues.enqueue(%s, max_attempts => 1)" for _ in task_types)
    return list(house.sql(f"select {calls}", *task_types)[0])


def ran(house: House) -> list[int]:
    return sorted(int(line) for line in (house.folder / "ledger").read_text().split())


@pytest.mark.parametrize(("bad", "kind"), BAD.items(), ids=BAD)
def test_tasks_before_and_behind_a_bad_one_run_once_and_keep_their_results(
    house: House, bad: str, kind: str | None
) -> None:
    before, behind = ["neighbour"] * 5, ["neighbour"] * 40
    ids = together(house, *before, bad, *behind)
    worker = house.worker("--max-envelope", "2KiB").ready()
    bad_id = ids.pop(len(before))
    rows: list[dict[str, Any]] = house.finals(ids)
    assert {(row["status"], row["attempt_count"], row["claim_no"], row["result_json"]) for row in rows} == {
        ("SUCCESSFUL", 1, 1, "ran")
    }
    assert ran(house) == ids
    assert house.final(bad_id)["failure_kind"] == kind
    assert worker.stop() == 0


def test_a_task_that_its_child_never_took_isnt_timed_out_and_its_time_out_still_holds(house: House) -> None:
    first, limited = together(house, "leaves-its-child-stuck", "limited")
    worker = house.worker().ready()
    row = house.final(limited)
    assert (row["failure_kind"], row["attempt_count"], ran(house)) == ("timed_out", 1, [limited])
    assert house.final(first)["status"] == "SUCCESSFUL"
    assert "takes no task" in worker.wait_event("child_recycled")["message"]
