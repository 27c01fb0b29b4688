"""What goes back uncounted, and how often it may."""

from __future__ import annotations

import pytest

from .conftest import Queue, refused


def test_a_row_not_begun_goes_back_to_its_place_without_a_trace(q: Queue) -> None:
    row = q.claimed(scheduled_at="2001-01-01")
    before = q.task(row.id)
    assert q.give_back(row) == "kept"
    task = q.task(row.id)
    assert (task["status"], task["attempt_count"], task["give_backs"]) == ("PENDING", 0, 0)
    assert (task["worker_id"], task["leased_until"], task["claimed_at"]) == (None, None, None)
    assert (task["run_after"], task["claim_no"]) == (before["run_after"], before["claim_no"])
    assert q.events(row.id) == []


def test_it_may_go_back_not_begun_without_end_even_a_task_that_may_run_once(q: Queue) -> None:
    task_id = q.enqueue(max_attempts=1)
    for number in range(15):
        (row,) = q.claim()
        assert (row.id, row.claim_no, row.row["attempt_count"]) == (task_id, number + 1, 1)
        assert q.give_back(row) == "kept"


def test_a_begun_one_goes_back_ten_times_at_most(q: Queue) -> None:
    task_id = q.enqueue()
    for number in range(1, 11):
        (row,) = q.claim()
        q.start(row)
        assert q.give_back(row) == "kept"
        task = q.task(task_id)
        assert (task["attempt_count"], task["give_backs"]) == ((0, number) if number < 10 else (1, 9))
    assert (task["status"], task["failure_kind"]) == ("FAILED", "interrupted")
    assert q.events(task_id) == ["given_back"] * 9 + ["failed"]


def test_a_begun_one_that_may_run_once_has_run(q: Queue) -> None:
    row = q.claimed(max_attempts=1)
    q.start(row)
    assert q.give_back(row) == "kept"
    task = q.task(row.id)
    assert (task["status"], task["failure_kind"], task["attempt_count"]) == ("FAILED", "interrupted", 1)
    assert q.give_back(row) == "lost"


@pytest.mark.parametrize(
    ("on_the_row", "says", "status"),
    [(True, False, "PENDING"), (False, True, "FAILED"), (True, None, "FAILED"), (False, None, "PENDING")],
)
def test_the_workers_word_on_whether_it_began_goes_before_the_rows(
    q: Queue, on_the_row: bool, says: bool | None, status: str
) -> None:
    row = q.claimed(max_attempts=1)
    if on_the_row:
        q.start(row)
    q.give_back(row, started=[says])
    assert q.task(row.id)["status"] == status


def test_a_cancelled_one_only_loses_its_lease(q: Queue) -> None:
    row = q.claimed()
    q.cancel(row.id)
    assert q.give_back(row) == "cancelled"
    assert (q.task(row.id)["status"], q.task(row.id)["leased_until"]) == ("CANCELLED", None)


def test_a_recall_gives_back_what_the_worker_does_not_know_of(q: Queue) -> None:
    known, unknown, stopped, others = q.claimed("a"), q.claimed("b"), q.claimed("c"), q.claimed("d", worker="other")
    q.cancel(stopped.id)
    assert q.value("select queues.recall('w', %s, %s)", [known.id], [known.claim_no]) == 2
    assert [q.task(row.id)["status"] for row in (known, unknown, others)] == ["RUNNING", "PENDING", "RUNNING"]
    assert q.task(unknown.id)["attempt_count"] == 0
    assert (q.task(stopped.id)["status"], q.task(stopped.id)["leased_until"]) == ("CANCELLED", None)


def test_a_recall_knows_an_execution_by_its_claim_number(q: Queue) -> None:
    row = q.claimed()
    assert q.value("select queues.recall('w', %s, %s)", [row.id], [row.claim_no - 1]) == 1


def test_cancel_answers_what_became_of_it(q: Queue) -> None:
    assert q.cancel(10**12) == "unknown"
    waiting, running, done = q.enqueue("waiting", scheduled_at="2100-01-01"), q.claimed("running"), q.claimed("done")
    q.succeed(done)
    assert q.cancel(waiting, "why") == "cancelled"
    assert q.cancel(waiting) == "cancelled"
    assert q.cancel(running.id) == "stopping"
    assert q.cancel(running.id) == "stopping"
    q.give_back(running)
    assert q.cancel(running.id) == "cancelled"
    assert q.cancel(done.id) == "too_late"
    assert q.task(waiting)["last_error"] == "why"
    assert q.events(waiting) == ["cancelled"]
    assert q.last_detail(waiting) == {"by": "postgres", "reason": "why"}


def test_a_cancelled_task_is_never_claimed(q: Queue) -> None:
    q.cancel(q.enqueue())
    assert q.claim() == []


def test_a_deleted_task_is_unknown_to_cancel_status_and_replay(q: Queue) -> None:
    task_id = q.enqueue()
    assert q.soft_delete(task_id, "a mistake") == "deleted"
    assert q.soft_delete(task_id) == "deleted"
    assert (q.cancel(task_id), q.replay(task_id)) == ("unknown", "unknown")
    assert q.rows("select * from queues.task_status(%s)", task_id) == []
    assert q.rows("select * from queues.task") == []
    assert q.task(task_id)["delete_reason"] == "a mistake"
    assert q.events(task_id) == ["deleted"]
    assert q.soft_delete(10**12) == "unknown"


def test_a_running_task_that_is_deleted_may_still_finish(q: Queue) -> None:
    row = q.claimed()
    q.soft_delete(row.id)
    assert q.heartbeat(row) == "kept"
    assert q.succeed(row, payload=5) == "done"
    assert (q.task(row.id)["status"], q.task(row.id)["result_json"]) == ("SUCCESSFUL", 5)


@pytest.mark.parametrize("end", ["fail", "expire", "expire not begun", "interrupt"])
def test_a_running_task_that_is_deleted_never_runs_again(q: Queue, end: str) -> None:
    row = q.claimed(max_attempts=1 if end == "expire not begun" else 3)
    q.soft_delete(row.id)
    if "not begun" not in end:
        q.start(row)
    if end == "fail":
        q.fail(row)
    elif end == "interrupt":
        q.give_back(row)
    else:
        q.expire(row.id)
        q.reclaim()
    assert q.task(row.id)["status"] == "FAILED"


def test_a_deleted_one_that_was_not_begun_goes_back_and_is_not_claimed(q: Queue) -> None:
    row = q.claimed()
    q.soft_delete(row.id)
    assert q.give_back(row) == "kept"
    assert q.claim() == []


def test_a_replay_reopens_the_same_row_with_its_history(q: Queue) -> None:
    row = q.claimed(max_attempts=1, idempotency_key="k")
    q.fail(row)
    assert q.replay(row.id) == "replayed"
    task = q.task(row.id)
    assert (task["status"], task["attempt_count"], task["max_attempts"], task["give_backs"]) == ("PENDING", 1, 4, 0)
    assert (task["completed_at"], task["worker_id"], task["started_at"]) == (None, None, None)
    (again,) = q.claim()
    assert (again.id, again.claim_no, again.row["attempt_count"], again.row["idempotency_key"]) == (row.id, 2, 2, "k")
    assert q.succeed(row) == "lost"
    assert q.events(row.id) == ["failed", "replayed"]
    assert q.last_detail(row.id) == {"was": "FAILED", "kind": "raised", "by": "postgres"}


def test_a_replay_grows_by_what_is_asked_else_the_types_number(q: Queue) -> None:
    q.declare("t", max_attempts=7)
    for asked, most in ((None, 8), (2, 3)):
        row = q.claimed(max_attempts=1)
        q.fail(row)
        q.replay(row.id, asked)
        assert q.task(row.id)["max_attempts"] == most
        q.cancel(row.id)
    for impossible in (0, -1, 100_000):
        assert refused(lambda number=impossible: q.replay(row.id, number))[0] == "RQ003"  # type: ignore[misc]


def test_only_what_has_ended_can_be_replayed(q: Queue) -> None:
    running, stopping, done, waiting = q.claimed("a"), q.claimed("b"), q.claimed("c"), q.enqueue("d")
    q.cancel(stopping.id)
    q.succeed(done)
    assert [q.replay(task_id) for task_id in (running.id, stopping.id, done.id, waiting)] == [
        "not_ended",
        "not_ended",
        "succeeded",
        "not_ended",
    ]
    assert q.replay(10**12) == "unknown"


def test_a_supervised_task_is_replayed_with_its_process(q: Queue) -> None:
    (row,) = q.call("enqueue_system", task_type="t", supervised=True)
    task_id = row["enqueue_system"]
    q.cancel(task_id)
    code, message, hint = refused(lambda: q.replay(task_id))
    assert (code, str(task_id) in message, "process" in hint) == ("RQ004", True, True)
    assert q.rows("select * from queues.dead_letter") == []
