"""One hash, whichever way a task comes in."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from reproq.client import Client

from .conftest import Queue

PAYLOADS: list[dict[str, Any]] = [
    {},
    {"b": 1, "a": [1, 2.50, None, True], "c": {"z": "é\U0001f600", "y": '"'}},
    {"text": "a\\b\n", "ключ": "значение"},
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_it_is_the_same_from_sql_from_python_one_many_and_once(q: Queue, payload: dict[str, Any]) -> None:
    q.enqueue("a.b", payload, queue_name="x")
    q.enqueue_many("a.b", [payload, payload], queue_name="x")
    q.call("enqueue_once", task_type="a.b", payload=Jsonb(payload), queue_name="x")
    q.call("enqueue_system", task_type="a.b", payload=Jsonb(payload), queue_name="x")
    with Client(q.database.app_dsn) as client:
        client.enqueue("a.b", payload, queue_name="x")
        client.enqueue_many("a.b", [payload], queue_name="x")
    with q.database.connect("app") as conn:
        Client.enqueue_in(conn, "a.b", payload, queue_name="x")
    hashes = q.rows("select spec_hash, count(*) as n from queues.task_runs group by 1")
    assert [row["n"] for row in hashes] == [8]
    text = q.value("select jsonb_build_array('a.b'::text, 'x'::text, %s::jsonb)::text", Jsonb(payload))
    assert hashes[0]["spec_hash"] == hashlib.sha256(text.encode()).hexdigest()


def test_a_row_inserted_by_hand_gets_it_too(q: Queue) -> None:
    q.rows("insert into queues.task_runs (task_type, payload_json) values ('t', '{\"n\": 1}')")
    q.enqueue("t", {"n": 1})
    assert q.value("select count(distinct spec_hash) from queues.task_runs") == 1


def test_type_queue_and_payload_each_change_it_and_nothing_else_does(q: Queue) -> None:
    q.enqueue("t", {"n": 1})
    same: list[dict[str, Any]] = [
        {"priority": 5},
        {"max_attempts": 9},
        {"idempotency_key": "k"},
        {"scheduled_at": "2040-01-01"},
    ]
    for named in same:
        q.enqueue("t", {"n": 1}, **named)
    assert q.value("select count(distinct spec_hash) from queues.task_runs") == 1
    q.enqueue("u", {"n": 1})
    q.enqueue("t", {"n": 1}, queue_name="other")
    q.enqueue("t", {"n": 2})
    assert q.value("select count(distinct spec_hash) from queues.task_runs") == 4


def test_the_order_and_spacing_of_keys_is_no_difference(q: Queue) -> None:
    for text in ('{"a": 1, "b": 2}', '{"b":2,   "a":1}'):
        q.rows("select queues.enqueue('t', %s::jsonb)", text)
    assert q.value("select count(distinct spec_hash) from queues.task_runs") == 1
