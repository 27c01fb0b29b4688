"""No write of a stale attempt is ever accepted: every write names id, worker and claim number."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from .conftest import Claimed, Queue, at_once, refused, wait_until

WRITES: dict[str, Callable[[Queue, Claimed], str]] = {
    "start": lambda q, row: q.start(row),
    "heartbeat": lambda q, row: q.heartbeat(row, started=[True]),
    "succeed": lambda q, row: q.succeed(row, payload=1),
    "fail": lambda q, row: q.fail(row),
    "snooze": lambda q, row: q.finish(row, False, snooze_s=1),
    "give_back": lambda q, row: q.give_back(row),
    "complete_task": lambda q, row: str(
        q.value("select queues.complete_task(%s, %s, %s, '1')", row.id, row.worker, row.claim_no)
    ),
    "fail_task": lambda q, row: str(
        q.value("select queues.fail_task(%s, %s, %s, 'x')", row.id, row.worker, row.claim_no)
    ),
}


def reclaimed(q: Queue, row: Claimed) -> None:
    q.expire(row.id)
    assert q.reclaim() == 1


FINISHES = ["succeed", "fail", "snooze", "complete_task", "fail_task"]
WRONG: dict[str, Callable[[Claimed], Claimed]] = {
    "worker": lambda row: replace(row, worker="w/2"),
    "claim_no": lambda row: replace(row, claim_no=row.claim_no + 1),
    "an earlier claim_no": lambda row: replace(row, claim_no=row.claim_no - 1),
    "id": lambda row: replace(row, id=row.id + 1_000_000),
}
LOST: dict[str, Callable[[Queue, Claimed], object]] = {
    "a reclaim": reclaimed,
    "a give back": lambda q, row: q.give_back(row),
    "another claim": lambda q, row: (q.give_back(row), q.claim(worker="another")),
    "another claim of the same worker": lambda q, row: (q.give_back(row), q.claim(worker=row.worker)),
    "a recall": lambda q, row: q.value("select queues.recall(%s, '{}', '{}')", row.worker),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("write", WRITES)
def test_a_wrong_fence_changes_nothing_and_is_told(q: Queue, write: str, wrong: str) -> None:
    row = q.claimed()
    before = q.task(row.id)
    assert WRITES[write](q, WRONG[wrong](row)) == "lost"
    assert q.task(row.id) == before


@pytest.mark.parametrize("ended", LOST)
@pytest.mark.parametrize("write", WRITES)
def test_after_the_lease_is_gone_every_write_is_lost(q: Queue, write: str, ended: str) -> None:
    row = q.claimed()
    LOST[ended](q, row)
    before = q.task(row.id)
    assert WRITES[write](q, row) == "lost"
    assert q.task(row.id) == before


@pytest.mark.parametrize("second", FINISHES)
@pytest.mark.parametrize("first", FINISHES)
def test_a_finish_that_is_sent_twice_is_known_and_changes_nothing(q: Queue, first: str, second: str) -> None:
    row = q.claimed()
    assert WRITES[first](q, row) == "done"
    before = q.task(row.id)
    assert WRITES[second](q, row) == "already"
    assert q.task(row.id) == before


@pytest.mark.parametrize("write", ["start", "heartbeat", "give_back"])
def test_after_its_finish_a_row_is_no_longer_held(q: Queue, write: str) -> None:
    row = q.claimed()
    q.succeed(row)
    before = q.task(row.id)
    assert WRITES[write](q, row) == "lost"
    assert q.task(row.id) == before


@pytest.mark.parametrize("write", WRITES)
def test_a_lease_that_ran_out_but_was_not_reclaimed_still_counts(q: Queue, write: str) -> None:
    row = q.claimed()
    q.expire(row.id, "1 hour")
    assert WRITES[write](q, row) in ("kept", "done")


@pytest.mark.parametrize("finish", FINISHES)
def test_the_finish_of_a_cancelled_row_only_clears_the_lease(q: Queue, finish: str) -> None:
    row = q.claimed()
    assert q.cancel(row.id, "no longer wanted") == "stopping"
    before = q.task(row.id)
    assert WRITES[finish](q, row) == "cancelled"
    after = q.task(row.id)
    assert after["leased_until"] is None
    cleared = {"leased_until", "updated_at", "started_at"}
    assert {k: v for k, v in after.items() if k not in cleared} == {k: v for k, v in before.items() if k not in cleared}
    assert WRITES[finish](q, row) == "already"


def test_a_success_stores_its_result_and_wipes_the_errors_of_earlier_attempts(q: Queue) -> None:
    row = q.claimed()
    q.fail(row, retry_in_s=0, error_detail={"a": 1})
    (row,) = q.claim()
    assert q.succeed(row, payload={"n": 1}) == "done"
    task = q.task(row.id)
    assert (task["status"], task["result_json"], task["leased_until"]) == ("SUCCESSFUL", {"n": 1}, None)
    assert (task["failure_kind"], task["error_json"], task["last_error"]) == (None, None, None)
    assert (task["worker_id"], task["claim_no"]) == (row.worker, row.claim_no)
    assert task["completed_at"] is not None


@pytest.mark.parametrize("result", [None, "absent", 0, [], {}])
def test_every_result_is_kept_as_json(q: Queue, result: object) -> None:
    row = q.claimed()
    q.succeed(row, **({} if result == "absent" else {"payload": result}))
    assert q.task(row.id)["result_json"] == (None if result == "absent" else result)
    assert q.value("select result_json is not null from queues.task_runs")


def test_how_long_it_ran_tells_when_it_began(q: Queue) -> None:
    row = q.claimed()
    q.succeed(row, ran_s=100)
    assert 99.9 < q.value("select extract(epoch from completed_at - started_at) from queues.task_runs") < 100.1


def test_a_heartbeat_extends_and_start_marks_the_beginning_once(q: Queue) -> None:
    row = q.claimed()
    assert q.task(row.id)["started_at"] is None
    assert q.start(row) == "kept"
    begun = q.task(row.id)["started_at"]
    assert begun is not None
    assert q.heartbeat(row, lease="1 hour", started=[True]) == "kept"
    assert q.start(row) == "kept"
    task = q.task(row.id)
    assert task["started_at"] == begun
    assert q.value("select leased_until > now() + interval '59 minutes' from queues.task_runs")


def test_a_heartbeat_of_one_not_begun_leaves_it_not_begun(q: Queue) -> None:
    row = q.claimed()
    for started in ([False], [None], None):
        assert q.heartbeat(row, started=started) == "kept"
    assert q.task(row.id)["started_at"] is None
    q.heartbeat(row, started=[True])
    assert q.task(row.id)["started_at"] is not None


def test_a_heartbeat_tells_of_a_cancel_and_keeps_the_lease_until_the_stop_is_confirmed(q: Queue) -> None:
    row = q.claimed()
    q.cancel(row.id)
    q.expire(row.id)
    assert q.heartbeat(row) == "cancelled"
    assert q.reclaim() == 0
    assert q.start(row) == "cancelled"


def test_a_heartbeat_never_waits_for_a_locked_row(q: Queue) -> None:
    locked, free = q.claimed("a"), q.claimed("b")
    until = q.task(locked.id)["leased_until"]
    other = q.database.connect()
    with other.transaction():
        other.execute("select 1 from queues.task_runs where id = %s for update", (locked.id,))
        q.admin.execute("set lock_timeout = '1ms'")
        ids = {"ids": [locked.id, free.id], "claim_nos": [locked.claim_no, free.claim_no]}
        answers = q.call("heartbeat", worker_id="w", lease="1 hour", **ids)
        q.admin.execute("reset lock_timeout")
    assert {row["id"]: row["answer"] for row in answers} == {locked.id: "busy", free.id: "kept"}
    assert q.task(locked.id)["leased_until"] == until
    assert q.heartbeat(locked) == "kept"


def test_a_heartbeat_says_that_its_worker_lives(q: Queue) -> None:
    q.declare("t")
    q.rows("update queues.workers set last_heartbeat = '2001-01-01'")
    assert q.call("heartbeat", worker_id="declarer", ids=[], claim_nos=[], lease="30 s") == []
    assert q.value("select last_heartbeat > now() - interval '1 minute' from queues.workers")


@pytest.mark.parametrize("lease", [None, "0 s", "25 hours"])
def test_a_heartbeat_with_an_impossible_lease_is_refused(q: Queue, lease: str | None) -> None:
    code, _, hint = refused(lambda: q.call("heartbeat", worker_id="w", ids=[], claim_nos=[], lease=lease))
    assert (code, bool(hint)) == ("RQ003", True)


def test_a_batch_answers_for_each_of_its_rows(q: Queue) -> None:
    good, gone, stopped, twice = (q.claimed(name) for name in "abcd")
    q.give_back(gone)
    q.cancel(stopped.id)
    q.succeed(twice)
    rows = [good, gone, stopped, twice]
    outcomes: list[dict[str, object]] = [{**row.fence, "success": number % 2 == 0} for number, row in enumerate(rows)]
    outcomes += [{"id": None, "claim_no": 1, "success": True}]
    answers = q.call("finish", worker_id="w", outcomes=Jsonb(outcomes))
    assert {row["id"]: row["answer"] for row in answers} == {
        good.id: "done", gone.id: "lost", stopped.id: "cancelled", twice.id: "already",
    }  # fmt: skip


@pytest.mark.parametrize("success", ["absent", None, "false", "no", 0])
def test_an_outcome_that_does_not_say_success_is_a_failure(q: Queue, success: Any) -> None:
    """Answering `done` and leaving it leased would be a lie."""
    row = q.claimed()
    outcome = {**row.fence, "kind": "raised", "error": "x"} | ({} if success == "absent" else {"success": success})
    (answer,) = q.call("finish", worker_id="w", outcomes=Jsonb([outcome]))
    assert (answer["answer"], q.task(row.id)["status"]) == ("done", "RETRYING")


def test_two_batches_in_opposite_order_never_deadlock(q: Queue) -> None:
    q.enqueue_many("t", [{}] * 200)
    rows = q.claim(200)
    connections = [q.database.connect("worker") for _ in range(4)]

    def end(number: int) -> list[str]:
        order = rows if number % 2 else rows[::-1]
        outcomes = [{**row.fence, "success": number < 2, "error": "x"} for row in order]
        answers = q.call("finish", connections[number], worker_id="w", outcomes=Jsonb(outcomes))
        return [row["answer"] for row in answers]

    answers = at_once(4, end)
    assert sum(batch.count("done") for batch in answers) == 200
    assert sum(batch.count("already") for batch in answers) == 600


def test_a_finish_that_waited_for_the_reclaim_is_lost(q: Queue) -> None:
    row = q.claimed()
    q.expire(row.id)
    reclaimer, worker = q.database.connect(), q.database.connect("worker")
    reclaimed = threading.Event()

    def act(number: int) -> str:
        if number == 0:
            with reclaimer.transaction():
                reclaimer.execute("select internal.reclaim('-infinity')")
                reclaimed.set()
                wait_until(lambda: q.waits_for_a_lock(worker))
            return "committed"
        assert reclaimed.wait(20)
        (answer,) = q.call("finish", worker, worker_id="w", outcomes=Jsonb([{**row.fence, "success": True}]))
        return str(answer["answer"])

    assert at_once(2, act) == ["committed", "lost"]
    assert q.task(row.id)["status"] == "RETRYING"
