"""One retry policy, in SQL, for failures and expired leases alike."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Claimed, Queue


def delay(q: Queue, task_id: int, since: str = "updated_at") -> float:
    return float(
        q.value(f"select extract(epoch from run_after - {since}) from queues.task_runs where id = %s", task_id)
    )


def attempt(q: Queue, task_id: int) -> Claimed:
    q.set(task_id, "run_after = now()")
    (row,) = q.claim()
    assert row.id == task_id
    return row


@pytest.mark.parametrize(
    ("number", "raw"), [(1, 1), (2, 2), (3, 4), (8, 128), (9, 256), (10, 300), (31, 300), (99999, 300)]
)
def test_the_back_off_doubles_up_to_its_cap_with_up_to_half_of_it_added(q: Queue, number: int, raw: float) -> None:
    spans = [
        float(row["s"])
        for row in q.rows(
            "select extract(epoch from internal.retry_delay('t', %s)) as s from generate_series(1, 300)", number
        )
    ]
    assert raw <= min(spans) < raw * 1.1
    assert raw * 1.4 < max(spans) <= raw * 1.5


def test_each_failure_waits_about_twice_as_long(q: Queue) -> None:
    task_id = q.enqueue(max_attempts=5)
    for raw in (1, 2, 4, 8):
        assert q.fail(attempt(q, task_id)) == "done"
        assert q.task(task_id)["status"] == "RETRYING"
        assert raw - 0.1 <= delay(q, task_id) <= raw * 1.5
    q.fail(attempt(q, task_id))
    assert (q.task(task_id)["status"], q.task(task_id)["attempt_count"]) == ("FAILED", 5)
    assert q.events(task_id) == ["retried"] * 4 + ["failed"]


def test_base_and_cap_are_the_types(q: Queue) -> None:
    q.declare("slow", backoff_base=60, backoff_cap=90)
    task_id = q.enqueue("slow", max_attempts=9)
    for raw in (60, 90, 90):
        row = attempt(q, task_id)
        q.fail(row)
        assert raw - 0.1 <= delay(q, row.id) <= raw * 1.5


@pytest.mark.parametrize(("base", "cap"), [(86400, None), (366 * 86400, 366 * 86400), (0.001, 366 * 86400)])
def test_no_setting_of_a_type_makes_the_back_off_overflow(q: Queue, base: float, cap: float | None) -> None:
    """An error there would end every claim that has to reclaim such a task."""
    q.declare("t", backoff_base=base, backoff_cap=cap)
    for number in (1, 20, 28, 40, 99_999):
        most = (cap or 300) * 1.5
        assert 0 < q.value("select extract(epoch from internal.retry_delay('t', %s))", number) <= most + 0.001


@pytest.mark.parametrize(
    ("asked", "low", "high"),
    [(0, -0.5, 0.1), (7.5, 7.4, 7.6), (-5, -0.5, 0.1), (1e300, 366 * 86400 - 1, 366 * 86400 + 1)],
)
def test_a_task_may_ask_for_its_own_delay(q: Queue, asked: float, low: float, high: float) -> None:
    row = q.claimed()
    assert q.fail(row, retry_in_s=asked) == "done"
    assert low <= delay(q, row.id) <= high


def test_its_own_delay_buys_no_attempt(q: Queue) -> None:
    row = q.claimed(max_attempts=1)
    q.fail(row, retry_in_s=5)
    assert q.task(row.id)["status"] == "FAILED"


@pytest.mark.parametrize("outcome", [{"final": True}, {"kind": "validation"}, {"kind": "no_handler_registered"}])
def test_some_failures_end_a_task_at_once(q: Queue, outcome: dict[str, Any]) -> None:
    row = q.claimed()
    q.fail(row, **outcome)
    task = q.task(row.id)
    assert (task["status"], task["failure_kind"], task["attempt_count"]) == ("FAILED", outcome.get("kind", "raised"), 1)
    assert q.events(row.id) == ["failed"]
    assert q.last_detail(row.id)["final"] is True


def test_a_failure_leaves_its_words_on_the_row_and_the_rest_in_its_event(q: Queue) -> None:
    row = q.claimed()
    q.fail(row, kind="exited", error="e" * 3000, error_detail={"type": "E"}, detail={"exit_code": 3}, ran_s=1.5)
    task = q.task(row.id)
    assert (task["failure_kind"], task["error_json"], task["last_error"]) == ("exited", {"type": "E"}, "e" * 2000)
    detail = q.last_detail(row.id)
    assert (detail["kind"], detail["exit_code"], detail["error"]) == ("exited", 3, "e" * 500)
    assert detail["started"] is True
    assert "final" not in detail


@pytest.mark.parametrize("kind", ["validation", "raised"])
def test_only_a_validation_failure_is_shown_among_the_errors(q: Queue, kind: str) -> None:
    row = q.claimed()
    q.fail(row, kind=kind, error="bad address")
    found = q.rows("select task_id, claim_no, source, message from queues.error")
    expected = [{"task_id": row.id, "claim_no": 1, "source": "validation", "message": "bad address"}]
    assert found == (expected if kind == "validation" else [])


def test_a_failed_task_is_in_the_dead_letter_until_it_is_replayed(q: Queue) -> None:
    row = q.claimed(max_attempts=1)
    q.fail(row)
    assert q.value("select id from queues.dead_letter") == row.id
    q.replay(row.id)
    assert q.rows("select id from queues.dead_letter") == []


def test_a_snooze_costs_no_attempt_and_is_no_failure(q: Queue) -> None:
    row = q.claimed(max_attempts=1)
    q.start(row)
    assert q.finish(row, False, snooze_s=60) == "done"
    task = q.task(row.id)
    assert (task["status"], task["attempt_count"], task["give_backs"], task["failure_kind"]) == ("PENDING", 0, 0, None)
    assert (task["started_at"], task["claimed_at"]) == (None, None)
    assert 59 <= delay(q, row.id) <= 61
    assert q.events(row.id) == ["given_back"]
    assert q.last_detail(row.id) == {"reason": "snoozed", "snooze_s": 60}
    assert attempt(q, row.id).claim_no == 2


@pytest.mark.parametrize("snooze", [1e300, -1e300])
def test_an_impossible_snooze_does_not_spoil_its_batch(q: Queue, snooze: float) -> None:
    row = q.claimed()
    assert q.finish(row, False, snooze_s=snooze) == "done"
    assert -1 <= delay(q, row.id) <= 367 * 86400


def test_an_expired_lease_is_a_failure_by_the_same_policy(q: Queue) -> None:
    row = q.claimed(max_attempts=2)
    q.start(row)
    q.expire(row.id, "0.5 seconds")
    ended = q.task(row.id)["leased_until"]
    assert q.reclaim() == 1
    task = q.task(row.id)
    assert (task["status"], task["failure_kind"], task["attempt_count"]) == ("RETRYING", "lease_expired", 1)
    assert (task["worker_id"], task["leased_until"], task["claim_no"]) == (None, None, 1)
    assert 1 - 0.001 <= (task["run_after"] - ended).total_seconds() <= 1.501
    assert q.events(row.id) == ["lease_expired"]
    assert "ran out" in task["last_error"]


def test_the_back_off_of_an_expired_lease_counts_from_its_end(q: Queue) -> None:
    row = q.claimed()
    q.expire(row.id, "1 hour")
    q.reclaim()
    assert -1 <= delay(q, row.id) <= 0.1


@pytest.mark.parametrize("begun", [True, False])
def test_an_expired_attempt_that_is_not_the_last_counts_begun_or_not(q: Queue, begun: bool) -> None:
    row = q.claimed(max_attempts=2)
    if begun:
        q.start(row)
    q.expire(row.id)
    q.reclaim()
    assert (q.task(row.id)["status"], q.task(row.id)["attempt_count"]) == ("RETRYING", 1)
    assert q.last_detail(row.id)["started"] is begun


def test_an_expired_last_attempt_that_began_is_over(q: Queue) -> None:
    row = q.claimed(max_attempts=1)
    q.start(row)
    q.expire(row.id)
    q.reclaim()
    task = q.task(row.id)
    assert (task["status"], task["failure_kind"], task["completed_at"] is not None) == ("FAILED", "lease_expired", True)
    assert q.events(row.id) == ["lease_expired", "failed"]


def test_an_expired_last_attempt_that_never_began_goes_back_uncounted(q: Queue) -> None:
    row = q.claimed(max_attempts=1)
    place = q.task(row.id)["run_after"]
    q.expire(row.id)
    q.reclaim()
    task = q.task(row.id)
    assert (task["status"], task["attempt_count"], task["give_backs"], task["run_after"]) == ("PENDING", 0, 0, place)
    assert q.events(row.id) == ["given_back"]
    assert attempt(q, row.id).claim_no == 2


def test_an_expired_cancelled_row_only_loses_its_lease(q: Queue) -> None:
    row = q.claimed()
    q.cancel(row.id)
    q.expire(row.id)
    before = q.task(row.id)
    q.reclaim()
    task = q.task(row.id)
    assert (task["status"], task["leased_until"]) == ("CANCELLED", None)
    assert task["completed_at"] == before["completed_at"]
    assert q.events(row.id) == ["cancelled", "lease_expired"]


def test_a_lease_that_has_not_run_out_is_left_alone(q: Queue) -> None:
    row = q.claimed()
    before = q.task(row.id)
    assert q.reclaim() == 0
    assert q.task(row.id) == before


def test_a_locked_row_does_not_hold_up_the_reclaim(q: Queue) -> None:
    locked, free = q.claimed("a"), q.claimed("b")
    for row in (locked, free):
        q.expire(row.id)
    other = q.database.connect()
    with other.transaction():
        other.execute("select 1 from queues.task_runs where id = %s for update", (locked.id,))
        assert q.reclaim() == 1
    assert q.task(free.id)["status"] == "RETRYING"
    assert q.reclaim() == 1


def test_attempts_are_bounded_whatever_way_they_die(q: Queue) -> None:
    task_id = q.enqueue(max_attempts=4)
    for number in range(4):
        row = attempt(q, task_id)
        assert row.row["attempt_count"] == number + 1
        if number == 3:
            q.start(row)
        q.expire(task_id) if number % 2 else q.fail(row, kind="killed")
        q.reclaim()
    assert q.task(task_id)["status"] == "FAILED"
    assert q.claim() == []


def test_how_the_process_of_a_cancelled_task_ended_is_told_once(q: Queue) -> None:
    row = q.claimed()
    assert q.cancel(row.id) == "stopping"
    detail = {"signal": 9, "duration_s": 1.5, "cpu_s": 0.2}
    told = {"kind": "interrupted", "error": "it was cancelled", "detail": detail}
    assert q.fail(row, **told) == "cancelled"
    assert q.fail(row, **told) == "already"
    assert q.events(row.id) == ["cancelled", "stopped"]
    assert q.rows("select detail from queues.task_events where event = 'stopped'") == [{"detail": detail}]


def test_a_failure_without_a_reason_says_so(q: Queue) -> None:
    row = q.claimed()
    q.rows("select queues.fail_task(%s, %s, %s, null)", row.id, row.worker, row.claim_no)
    assert q.task(row.id)["last_error"] == "the worker named no reason"
