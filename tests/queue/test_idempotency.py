"""One key of one type is one task, whoever asks, however many at once."""

from __future__ import annotations

import random

import psycopg
import pytest
from psycopg.types.json import Jsonb

from .conftest import Queue, at_once, refused, wait_until

CALLERS = 64


def once(q: Queue, payload: object = None, task_type: str = "t", **named: object) -> tuple[int, bool, bool]:
    (row,) = q.call("enqueue_once", task_type=task_type, payload=Jsonb(payload or {}), **named)
    return row["id"], row["is_new"], row["same_spec"]


@pytest.mark.parametrize("rolled_back", [0.0, 0.3])
def test_64_callers_of_one_key_get_one_row_and_one_id(q: Queue, rolled_back: float) -> None:
    chance = random.Random(1)
    aborts = [chance.random() < rolled_back for _ in range(CALLERS)]
    connections = [q.database.connect("app") for _ in range(CALLERS)]

    def ask(number: int) -> int | None:
        conn = connections[number]
        with conn.transaction(force_rollback=aborts[number]):
            found = q.value("select queues.enqueue('t', '{}', idempotency_key => 'k')", by=conn)
        return None if aborts[number] else int(found)

    try:
        answers = {answer for answer in at_once(CALLERS, ask) if answer is not None}
    finally:
        for conn in connections:
            conn.close()
    assert len(answers) == 1
    assert answers == {row["id"] for row in q.rows("select id from queues.task_runs")}


def test_a_caller_waits_for_the_first_and_takes_its_place_when_that_rolls_back(q: Queue) -> None:
    first, second = q.database.connect("app"), q.database.connect("app")
    with first.transaction(force_rollback=True):
        q.value("select queues.enqueue('t', idempotency_key => 'k')", by=first)

        def act(number: int) -> int | None:
            if number == 0:
                return int(q.value("select queues.enqueue('t', idempotency_key => 'k')", by=second))
            wait_until(lambda: q.waits_for_a_lock(second))
            first.execute("rollback")
            return None

        answer, _ = at_once(2, act)
    assert [row["id"] for row in q.rows("select id from queues.task_runs")] == [answer]


def test_a_duplicate_writes_nothing(q: Queue) -> None:
    first = q.enqueue("t", {"n": 1}, idempotency_key="k", priority=1)
    before = q.task(first)
    assert q.enqueue("t", {"n": 2}, idempotency_key="k", priority=9, queue_name="other") == first
    assert q.task(first) == before
    assert q.count() == 1


def test_another_type_with_the_same_key_is_another_task(q: Queue) -> None:
    assert q.enqueue("t", idempotency_key="k") != q.enqueue("u", idempotency_key="k")


def test_the_key_is_kept_after_the_end(q: Queue) -> None:
    row = q.claimed(idempotency_key="k")
    q.succeed(row)
    assert q.enqueue(idempotency_key="k") == row.id


def test_a_soft_deleted_task_frees_its_key(q: Queue) -> None:
    first = q.enqueue(idempotency_key="k")
    assert q.soft_delete(first) == "deleted"
    second = q.enqueue(idempotency_key="k")
    assert second != first
    assert q.enqueue(idempotency_key="k") == second


def test_the_answer_tells_whether_it_is_new_and_whether_it_is_the_same_work(q: Queue) -> None:
    first, is_new, same_spec = once(q, {"n": 1}, idempotency_key="k")
    assert (is_new, same_spec) == (True, True)
    assert once(q, {"n": 1}, idempotency_key="k") == (first, False, True)
    assert once(q, {"n": 2}, idempotency_key="k") == (first, False, False)
    assert once(q, {"n": 1}, idempotency_key="k", queue_name="other") == (first, False, False)
    assert once(q, {"n": 2}, task_type="u", idempotency_key="k")[1:] == (True, True)


def test_without_a_key_every_call_is_a_new_task(q: Queue) -> None:
    assert [once(q)[1:] for _ in range(3)] == [(True, True)] * 3
    assert q.count() == 3


def test_two_callers_with_the_same_keys_in_opposite_order_never_deadlock(q: Queue) -> None:
    keys = [f"k{n:02}" for n in range(40)]
    connections = [q.database.connect("app") for _ in range(4)]
    payloads = [Jsonb({}) for _ in keys]

    def ask(number: int) -> list[int]:
        order = keys if number % 2 else keys[::-1]
        (row,) = q.call("enqueue_many", connections[number], task_type="t", payloads=payloads, idempotency_keys=order)
        ids: list[int] = row["enqueue_many"]
        return ids if number % 2 else ids[::-1]

    first, *others = at_once(4, ask)
    assert all(other == first for other in others)
    assert q.count() == len(keys)


def test_two_callers_with_the_same_unique_specs_in_opposite_order_never_deadlock(q: Queue) -> None:
    payloads = [Jsonb({"n": n}) for n in range(40)]
    connections = [q.database.connect("app") for _ in range(4)]

    def ask(number: int) -> set[int]:
        order = payloads if number % 2 else payloads[::-1]
        (row,) = q.call("enqueue_many", connections[number], task_type="t", payloads=order, unique_among="active")
        return set(row["enqueue_many"])

    answers = at_once(4, ask)
    assert all(answer == answers[0] for answer in answers)
    assert q.count() == len(payloads)


def test_under_repeatable_read_a_hidden_rival_is_an_error_and_not_a_second_row(q: Queue) -> None:
    conn = q.database.connect("app")
    conn.execute("begin isolation level repeatable read")
    conn.execute("select 1")
    q.enqueue(idempotency_key="k")
    code, _, _ = refused(lambda: q.value("select queues.enqueue('t', idempotency_key => 'k')", by=conn))
    assert code == psycopg.errors.SerializationFailure.sqlstate
    assert q.count() == 1
