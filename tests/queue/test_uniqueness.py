"""unique_among: one live row of a spec, among the active or among the waiting."""

from __future__ import annotations

import threading

import pytest
from psycopg.types.json import Jsonb

from .conftest import LONG_AGO, Claimed, Queue, at_once, refused

SOON = "2100-01-01 00:00:00+00"
LATER = "2200-01-01 00:00:00+00"


def twins(q: Queue, max_attempts: int = 3, begun: bool = True) -> tuple[Claimed, int]:
    """A running row that is unique among the waiting, and its twin that waits."""
    running = q.claimed(unique_among="waiting", max_attempts=max_attempts)
    if begun:
        q.start(running)
    waiting = q.enqueue(unique_among="waiting", scheduled_at=SOON)
    assert waiting != running.id
    return running, waiting


def is_superseded(q: Queue, row: Claimed) -> bool:
    task = q.task(row.id)
    assert (task["status"], task["failure_kind"], task["leased_until"]) == ("CANCELLED", "superseded", None)
    assert task["completed_at"] is not None
    assert q.last_detail(row.id)["reason"] == "superseded"
    return q.events(row.id)[-1] == "cancelled"


@pytest.mark.parametrize("among", ["active", "waiting"])
def test_a_duplicate_answers_the_first_id(q: Queue, among: str) -> None:
    first = q.enqueue("t", {"n": 1}, unique_among=among)
    assert q.enqueue("t", {"n": 1}, unique_among=among) == first
    assert q.enqueue("t", {"n": 2}, unique_among=among) != first
    assert q.enqueue("t", {"n": 1}, unique_among=among, queue_name="other") != first
    assert q.enqueue("t", {"n": 1}) != first
    assert q.count() == 4


@pytest.mark.parametrize("among", ["active", "waiting"])
def test_64_callers_get_one_row(q: Queue, among: str) -> None:
    connections = [q.database.connect("app") for _ in range(64)]

    def ask(number: int) -> int:
        return int(q.value("select queues.enqueue('t', unique_among => %s)", among, by=connections[number]))

    try:
        assert len(set(at_once(64, ask))) == q.count() == 1
    finally:
        for conn in connections:
            conn.close()


def test_a_twin_that_vanishes_at_that_moment_is_no_error(q: Queue) -> None:
    """It is in the way of the insert, and claimed or deleted before anybody could look at it."""
    enqueuers = [q.database.connect("app") for _ in range(4)]
    over = threading.Event()

    def act(number: int) -> list[int]:
        if number == 0:
            while not over.is_set():
                q.rows("select queues.soft_delete(id, 'x') from queues.task_runs where deleted_at is null")
            return []
        sql = "select queues.enqueue('t', unique_among => %s, idempotency_key => %s)"
        try:
            args = ("waiting", None) if number % 2 else (None, "k")
            return [int(q.value(sql, *args, by=enqueuers[number - 1])) for _ in range(150)]
        finally:
            done.append(number)
            if len(done) == len(enqueuers):
                over.set()

    done: list[int] = []
    answers = at_once(5, act)
    assert [len(ids) for ids in answers] == [0, 150, 150, 150, 150]


def test_active_sees_a_running_row_and_waiting_does_not(q: Queue) -> None:
    active = q.claimed("a", unique_among="active")
    waiting = q.claimed("w", unique_among="waiting")
    assert q.enqueue("a", unique_among="active") == active.id
    assert q.enqueue("w", unique_among="waiting") != waiting.id


@pytest.mark.parametrize("among", ["active", "waiting"])
def test_an_ended_or_deleted_row_is_in_nobodys_way(q: Queue, among: str) -> None:
    ended = q.claimed(unique_among=among)
    q.succeed(ended)
    deleted = q.enqueue(unique_among=among)
    q.soft_delete(deleted)
    assert q.enqueue(unique_among=among) not in (ended.id, deleted)


def test_a_waiting_duplicate_keeps_the_earlier_time(q: Queue) -> None:
    first = q.enqueue(unique_among="waiting", scheduled_at=SOON)
    assert q.enqueue(unique_among="waiting", scheduled_at=LATER) == first
    assert q.value("select run_after = %s from queues.task_runs", SOON)
    assert q.enqueue(unique_among="waiting", scheduled_at=LONG_AGO) == first
    assert q.value("select run_after = %s from queues.task_runs", LONG_AGO)


def test_an_active_duplicate_changes_nothing(q: Queue) -> None:
    first = q.enqueue(unique_among="active", scheduled_at=SOON)
    before = q.task(first)
    assert q.enqueue(unique_among="active", scheduled_at=LONG_AGO) == first
    assert q.task(first) == before


def test_many_unique_ones_become_one(q: Queue) -> None:
    ids = q.enqueue_many("t", [{"n": 1}, {"n": 2}, {"n": 1}], unique_among="active")
    assert ids[0] == ids[2] != ids[1]
    assert q.count() == 2


def test_the_answer_says_that_a_twin_is_the_same_work(q: Queue) -> None:
    q.enqueue(unique_among="active")
    (row,) = q.call("enqueue_once", task_type="t", payload=Jsonb({}), unique_among="active")
    assert (row["is_new"], row["same_spec"]) == (False, True)


def test_a_failure_with_a_waiting_twin_ends_superseded(q: Queue) -> None:
    running, waiting = twins(q)
    assert q.fail(running) == "done"
    assert is_superseded(q, running)
    assert q.task(running.id)["last_error"] == "boom"
    assert q.fail(running) == "already"
    assert q.task(waiting)["status"] == "PENDING"


def test_a_final_failure_is_a_failure_whoever_waits(q: Queue) -> None:
    running, _ = twins(q, max_attempts=1)
    q.fail(running)
    assert q.task(running.id)["status"] == "FAILED"


def test_a_snooze_with_a_waiting_twin_ends_superseded(q: Queue) -> None:
    running, _ = twins(q)
    assert q.finish(running, False, snooze_s=5) == "done"
    assert is_superseded(q, running)
    assert q.finish(running, False, snooze_s=5) == "already"


def test_an_expired_lease_with_a_waiting_twin_ends_superseded(q: Queue) -> None:
    running, _ = twins(q)
    q.expire(running.id)
    assert q.reclaim() == 1
    assert is_superseded(q, running)


def test_an_expired_last_attempt_that_never_began_ends_superseded_too(q: Queue) -> None:
    running, _ = twins(q, max_attempts=1, begun=False)
    q.expire(running.id)
    assert q.reclaim() == 1
    assert is_superseded(q, running)


@pytest.mark.parametrize("begun", [True, False])
def test_a_give_back_with_a_waiting_twin_ends_superseded(q: Queue, begun: bool) -> None:
    running, _ = twins(q, begun=begun)
    assert q.give_back(running) == "kept"
    assert is_superseded(q, running)


def test_one_superseded_row_does_not_spoil_the_batch_it_ends_in(q: Queue) -> None:
    running, _ = twins(q)
    other = q.claimed("other")
    outcomes = [{**row.fence, "success": False, "kind": "raised", "error": "x"} for row in (running, other)]
    answers = q.call("finish", worker_id="w", outcomes=Jsonb(outcomes))
    assert {row["answer"] for row in answers} == {"done"}
    assert [q.task(row.id)["status"] for row in (running, other)] == ["CANCELLED", "RETRYING"]


@pytest.mark.parametrize("among", ["active", "waiting"])
def test_a_replay_beside_a_live_twin_is_refused(q: Queue, among: str) -> None:
    ended = q.enqueue(unique_among=among)
    q.cancel(ended)
    twin = q.enqueue(unique_among=among)
    code, message, hint = refused(lambda: q.replay(ended))
    assert (code, str(ended) in message, bool(hint)) == ("RQ006", True, True)
    q.cancel(twin)
    assert q.replay(ended) == "replayed"


def test_a_supervisor_may_enqueue_its_own_next_run_and_the_chain_stays_one(q: Queue) -> None:
    first = q.enqueue("supervise", unique_among="waiting")
    for _ in range(5):
        (running,) = q.claim()
        ids = {q.enqueue("supervise", unique_among="waiting") for _ in range(3)}
        assert len(ids) == 1
        assert first not in ids or running.id == first
        q.succeed(running)
        assert q.count("status = 'PENDING'") == 1
