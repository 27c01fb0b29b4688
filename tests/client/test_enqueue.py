"""One task, many tasks, and every option."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from reproq.client import (
    Client,
    EnqueueRefused,
)
from tests.client.database_view import TYPE, count, stored
from tests.conftest import Database


def test_an_enqueued_task_is_committed_when_its_id_comes_back(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE, {"invoice": 7})
    row = stored(database, task_id)
    assert (row["task_type"], row["payload_json"], row["status"], row["queue_name"]) == (
        *(TYPE, {"invoice": 7}, "PENDING", "default"),
    )


def test_a_payload_is_optional(client: Client, database: Database) -> None:
    assert stored(database, client.enqueue(TYPE))["payload_json"] == {}


def test_every_option_reaches_the_row(client: Client, database: Database) -> None:
    when = datetime(2040, 5, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    task_id = client.enqueue(
        *(TYPE, {}),
        scheduled_at=when,
        queue_name="slow",
        priority=-7,
        idempotency_key="k-1",
        max_attempts=9,
        timeout=timedelta(minutes=2),
        unique_among="active",
        limit_key="customer-1",
        trace="00-abc",
    )
    row = stored(database, task_id)
    assert datetime.fromisoformat(row["run_after"]) == when
    assert (row["queue_name"], row["priority"], row["idempotency_key"]) == ("slow", -7, "k-1")
    assert (row["max_attempts"], row["timeout_s"], row["limit_key"], row["trace"]) == (9, 120, "customer-1", "00-abc")


def test_a_delay_counts_by_the_clock_of_the_database(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE, delay=90)
    ((ahead,),) = database.execute(
        "select extract(epoch from run_after - created_at)::float8 from queues.task_runs where id = %s", task_id
    )
    assert ahead == pytest.approx(90, abs=0.5)


def test_an_option_that_is_none_is_as_good_as_not_given(client: Client, database: Database) -> None:
    row = stored(database, client.enqueue(TYPE, None, queue_name=None, priority=None, delay=None))
    assert (row["queue_name"], row["priority"]) == ("default", 0)


def test_the_same_key_answers_the_first_id(client: Client, database: Database) -> None:
    assert client.enqueue(TYPE, {}, idempotency_key="k") == client.enqueue(TYPE, {}, idempotency_key="k")
    assert count(database) == 1


def test_many_are_stored_in_one_statement_and_their_ids_come_in_order(client: Client, database: Database) -> None:
    ids = client.enqueue_many(TYPE, ({"n": n} for n in range(300)), priority=3)
    assert len(ids) == 300
    rows = database.execute("select payload_json->>'n', priority, xmin::text from queues.task_runs order by id")
    assert [(n, priority) for n, priority, _ in rows] == [(str(n), 3) for n in range(300)]
    assert len({xmin for _, _, xmin in rows}) == 1
    assert [stored(database, one)["payload_json"]["n"] for one in ids[:3]] == [0, 1, 2]


def test_many_of_nothing_is_nothing(client: Client, database: Database) -> None:
    assert client.enqueue_many(TYPE, []) == []


def test_many_with_one_bad_payload_store_none(client: Client, database: Database) -> None:
    with pytest.raises(EnqueueRefused):
        client.enqueue_many(TYPE, [{"n": 1}, {"n": 10**1500}])
    assert count(database) == 0


def test_many_take_a_key_each(client: Client, database: Database) -> None:
    first = client.enqueue_many(TYPE, [{}, {}], idempotency_keys=["a", "b"])
    assert client.enqueue_many(TYPE, [{}, {}, {}], idempotency_keys=["b", "c", "a"])[::2] == first[::-1]
    assert count(database) == 3


@pytest.mark.parametrize("payloads", [{"a": 1}, "text", b"bytes"])
def test_many_refuses_a_single_payload(refused: Client, payloads: Any) -> None:
    with pytest.raises(EnqueueRefused, match="list of payloads"):
        refused.enqueue_many(TYPE, payloads)
