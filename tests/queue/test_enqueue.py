"""What an enqueue stores, and what it refuses without storing anything."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from .conftest import Queue, refused

WHEN = datetime(2040, 5, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
BAD: list[tuple[str, dict[str, Any]]] = [
    ("RQ001", {"task_type": None}),
    ("RQ001", {"task_type": ""}),
    ("RQ001", {"task_type": "_t"}),
    ("RQ001", {"task_type": "a b"}),
    ("RQ001", {"task_type": "a\n"}),
    ("RQ001", {"task_type": "é"}),
    ("RQ001", {"task_type": "x" * 201}),
    ("RQ001", {"queue_name": None}),
    ("RQ001", {"queue_name": "a/b"}),
    ("RQ001", {"queue_name": "x" * 101}),
    ("RQ002", {"payload": None}),
    ("RQ002", {"payload": Jsonb([1])}),
    ("RQ002", {"payload": Jsonb("text")}),
    ("RQ002", {"payload": Jsonb(None)}),
    ("RQ003", {"priority": None}),
    ("RQ003", {"priority": 1_000_001}),
    ("RQ003", {"priority": -1_000_001}),
    ("RQ003", {"max_attempts": 0}),
    ("RQ003", {"max_attempts": 100_001}),
    ("RQ003", {"scheduled_at": None}),
    ("RQ003", {"scheduled_at": "infinity"}),
    ("RQ003", {"scheduled_at": "1969-12-31 00:00+00"}),
    ("RQ003", {"scheduled_at": "9000-01-01 00:00+00"}),
    ("RQ003", {"unique_among": "all"}),
    ("RQ003", {"timeout": "0"}),
    ("RQ003", {"timeout": "-1 s"}),
    ("RQ003", {"timeout": "367 days"}),
    ("RQ003", {"timeout": "12 months 6 days"}),  # 366 days by comparison, more by the clock
    ("RQ003", {"after": [10**12]}),
    ("RQ003", {"after": [None]}),
    ("RQ003", {"idempotency_key": ""}),
    ("RQ003", {"idempotency_key": "k" * 501}),
    ("RQ003", {"limit_key": ""}),
    ("RQ003", {"limit_key": "k" * 501}),
]


@pytest.mark.parametrize("function", ["enqueue", "enqueue_once", "enqueue_system", "enqueue_many"])
@pytest.mark.parametrize(("code", "argument"), BAD)
def test_bad_input_has_a_code_and_a_hint_and_stores_nothing(
    q: Queue, function: str, code: str, argument: dict[str, Any]
) -> None:
    arguments: dict[str, Any] = {"task_type": "t", "payload": Jsonb({})} | argument
    if function == "enqueue_many":
        arguments["payloads"] = [Jsonb({"good": 1}), arguments.pop("payload")]
        if "idempotency_key" in arguments:
            arguments["idempotency_keys"] = ["good", arguments.pop("idempotency_key")]
    found, message, hint = refused(lambda: q.call(function, **arguments))
    assert (found, bool(message), bool(hint)) == (code, True, True)
    assert "\n" not in message
    assert q.count() == 0


def test_the_edges_of_every_range_are_allowed(q: Queue) -> None:
    q.enqueue("x" * 200, queue_name="y" * 100, priority=1_000_000, max_attempts=100_000, idempotency_key="k" * 500)
    q.enqueue("9.-_:A", priority=-1_000_000, max_attempts=1, scheduled_at="1970-01-01 00:00+00", timeout="366 days")
    q.enqueue(scheduled_at="8999-12-31 23:59+00", timeout="1 microsecond", limit_key="k" * 500, after=[])
    assert q.count() == 3


def test_a_plain_enqueue_has_the_documented_defaults(q: Queue) -> None:
    task_id = q.value("select queues.enqueue('t')")
    row = q.task(task_id)
    assert (row["status"], row["queue_name"], row["priority"], row["payload_json"]) == ("PENDING", "default", 0, {})
    assert (row["max_attempts"], row["attempt_count"], row["claim_no"], row["timeout_s"]) == (3, 0, 0, None)
    assert row["run_after"] == row["created_at"] == row["updated_at"]


def test_every_argument_reaches_the_row(q: Queue) -> None:
    named: dict[str, Any] = {
        "queue_name": "slow",
        "priority": -7,
        "max_attempts": 9,
        "unique_among": "active",
        "trace": "00-a",
    }
    task_id = q.enqueue("t", {"n": 1}, scheduled_at=WHEN, timeout="90 s", idempotency_key="k", limit_key="c", **named)
    row = q.task(task_id)
    assert {name: row[name] for name in named} == named
    assert (row["run_after"], row["timeout_s"], row["idempotency_key"], row["limit_key"]) == (WHEN, 90, "k", "c")
    (many,) = q.enqueue_many("t", [{"n": 2}], scheduled_at=WHEN, timeout="90 s", limit_key="c", **named)
    same = {"id", "payload_json", "spec_hash", "idempotency_key", "created_at", "updated_at"}
    assert {k: v for k, v in q.task(many).items() if k not in same} == {k: v for k, v in row.items() if k not in same}


def test_many_answer_their_ids_in_the_order_of_the_payloads(q: Queue) -> None:
    ids = q.enqueue_many("t", [{"n": n} for n in range(500)])
    rows = q.rows("select id, payload_json->>'n' as n from queues.task_runs")
    assert {row["id"]: int(row["n"]) for row in rows} == {task_id: n for n, task_id in enumerate(ids)}


@pytest.mark.parametrize("keys", [None, []])
def test_many_of_nothing_is_nothing(q: Queue, keys: list[str] | None) -> None:
    assert q.enqueue_many("t", [], idempotency_keys=keys) == []
    assert q.count() == 0


def test_many_with_keys_answer_in_order_and_repeat_nothing(q: Queue) -> None:
    first = q.enqueue("t", {"n": 7}, idempotency_key="b")
    ids = q.enqueue_many("t", [{"n": n} for n in range(5)], idempotency_keys=["z", "b", None, "a", "z"])
    assert ids[1] == first
    assert ids[0] == ids[4]
    assert len({*ids}) == q.count() == 4
    assert [q.task(one)["idempotency_key"] for one in ids] == ["z", "b", None, "a", "z"]


def test_one_key_is_needed_for_each_payload(q: Queue) -> None:
    code, message, hint = refused(lambda: q.enqueue_many("t", [{}, {}], idempotency_keys=["a"]))
    assert (code, message) == ("RQ003", "1 idempotency keys for 2 payloads")
    assert hint


def test_a_bad_payload_among_many_is_named_by_its_place(q: Queue) -> None:
    documents = [Jsonb({}), Jsonb([1]), Jsonb(5)]
    code, message, hint = refused(lambda: q.call("enqueue_many", task_type="t", payloads=documents))
    assert (code, message) == ("RQ002", "payload no. 2: payload must be a JSON object, not array")
    assert hint == "Nothing of this call was stored."
    assert q.count() == 0


def test_null_instead_of_payloads_is_refused(q: Queue) -> None:
    assert refused(lambda: q.call("enqueue_many", task_type="t", payloads=None))[0] == "RQ002"


def test_the_attempts_are_the_arguments_else_the_types_else_three(q: Queue) -> None:
    q.declare("known", max_attempts=7)
    assert [q.task(q.enqueue(t))["max_attempts"] for t in ("known", "unknown")] == [7, 3]
    assert q.task(q.enqueue("known", max_attempts=2))["max_attempts"] == 2
    assert [q.task(one)["max_attempts"] for one in q.enqueue_many("known", [{}])] == [7]
    assert [q.task(one)["max_attempts"] for one in q.enqueue_many("known", [{}], max_attempts=2)] == [2]


def test_a_task_belongs_to_the_login_that_enqueued_it(q: Queue) -> None:
    app = q.database.connect("app")
    one = q.value("select queues.enqueue('t')", by=app)
    (many,) = q.value("select queues.enqueue_many('t', array['{}'::jsonb])", by=app)
    assert [q.task(task_id)["created_by"] for task_id in (one, many)] == ["reproq_app_login"] * 2
    assert q.task(q.enqueue())["created_by"] == "postgres"


def test_an_enqueue_is_part_of_the_callers_transaction(q: Queue) -> None:
    app = q.database.connect("app")
    with app.transaction(force_rollback=True):
        q.value("select queues.enqueue('t')", by=app)
    assert q.count() == 0


@pytest.mark.parametrize("statement", ["enqueue('t', '{}')", "enqueue_many('t', array['{}'::jsonb])"])
def test_a_schedule_is_kept_to_the_microsecond(q: Queue, statement: str) -> None:
    q.rows(f"select queues.{statement[:-1]}, scheduled_at => %s)", WHEN)
    assert q.value("select run_after from queues.task_runs") == WHEN


def test_where_nobody_said_how_many_attempts_the_types_own_number_counts_from_the_first_claim(q: Queue) -> None:
    """A task may be enqueued before any worker has reported its type: `at most once` must hold all the same."""
    open_ones = [q.enqueue("once"), *q.enqueue_many("once", [{}, {}]), q.enqueue("once", priority=1)]
    said = q.enqueue("once", max_attempts=5)
    q.rows("insert into queues.task_types (task_type, max_attempts) values ('once', 1)")
    claimed = {row.id: row.row["max_attempts"] for n in (1, 4) for row in q.claim(n)}
    assert claimed == dict.fromkeys(open_ones, 1) | {said: 5}


def test_a_type_that_nobody_ever_reports_keeps_three_attempts(q: Queue) -> None:
    row = q.claimed("unheard.of")
    assert row.row["max_attempts"] == 3
