"""dequeue, complete and fail: the whole engine for a worker in any language, with three statements."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from .conftest import Queue, refused


def dequeue(q: Queue, arguments: str = "", *values: object) -> dict[str, Any]:
    (row,) = q.rows(f"select * from queues.dequeue_next_available_task({arguments})", *values)
    return row


def complete(q: Queue, row: dict[str, Any], result: object = None) -> Any:
    return q.value(
        "select queues.complete_task(%s, %s, %s, %s)", row["id"], row["worker_id"], row["claim_no"], Jsonb(result)
    )


def test_it_needs_no_argument_and_answers_the_task_with_its_fence(q: Queue) -> None:
    task_id = q.enqueue("mail.send", {"to": "a"}, queue_name="out")
    row = dequeue(q)
    assert (row["id"], row["task_type"], row["queue_name"], row["payload"]) == (
        task_id,
        "mail.send",
        "out",
        {"to": "a"},
    )
    assert (row["claim_no"], row["attempt"], row["max_attempts"], row["idempotency_key"]) == (
        1,
        1,
        3,
        f"task-{task_id}",
    )
    task = q.task(task_id)
    assert (task["worker_id"], task["leased_until"]) == (row["worker_id"], row["leased_until"])
    assert task["started_at"] is not None


def test_nothing_to_do_is_no_row(q: Queue) -> None:
    assert q.rows("select * from queues.dequeue_next_available_task()") == []


def test_the_key_of_the_task_travels_where_it_has_one(q: Queue) -> None:
    q.enqueue(idempotency_key="k")
    assert dequeue(q)["idempotency_key"] == "k"


def test_name_queues_and_lease_can_be_said(q: Queue) -> None:
    q.enqueue(queue_name="a")
    wanted = q.enqueue(queue_name="b")
    row = dequeue(q, "'ruby', array['b'], '90 s'")
    assert row["id"] == wanted
    assert row["worker_id"].startswith("ruby/")
    assert q.value(
        "select leased_until - now() between interval '85 s' and interval '91 s' from queues.task_runs where id = %s",
        wanted,
    )


def test_each_call_has_a_fence_of_its_own(q: Queue) -> None:
    q.enqueue_many("t", [{}, {}])
    assert dequeue(q, "'same'")["worker_id"] != dequeue(q, "'same'")["worker_id"]


def test_complete_stores_the_result(q: Queue) -> None:
    q.enqueue()
    row = dequeue(q)
    assert complete(q, row, {"sent": 1}) == "done"
    assert complete(q, row, {"sent": 2}) == "already"
    assert (q.task(row["id"])["status"], q.task(row["id"])["result_json"]) == ("SUCCESSFUL", {"sent": 1})


def test_complete_without_a_result_is_a_success(q: Queue) -> None:
    q.enqueue()
    row = dequeue(q)
    assert q.value("select queues.complete_task(%s, %s, %s)", row["id"], row["worker_id"], row["claim_no"]) == "done"
    assert q.task(row["id"])["status"] == "SUCCESSFUL"


@pytest.mark.parametrize(
    ("retry", "status"), [("", "RETRYING"), (", true", "RETRYING"), (", null", "RETRYING"), (", false", "FAILED")]
)
def test_fail_retries_by_policy_unless_told_not_to(q: Queue, retry: str, status: str) -> None:
    q.enqueue()
    row = dequeue(q)
    fence = (row["id"], row["worker_id"], row["claim_no"])
    assert q.value(f"select queues.fail_task(%s, %s, %s, 'no route'{retry})", *fence) == "done"
    task = q.task(row["id"])
    assert (task["status"], task["failure_kind"], task["last_error"]) == (status, "raised", "no route")


@pytest.mark.parametrize("call", ["complete_task(%s, %s, %s)", "fail_task(%s, %s, %s, 'x')"])
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_an_incomplete_fence_is_a_lost_one(q: Queue, call: str, missing: int) -> None:
    row = q.claimed()
    fence: list[object] = [row.id, row.worker, row.claim_no]
    fence[missing] = None
    assert q.value(f"select queues.{call}", *fence) == "lost"
    assert q.task(row.id)["status"] == "RUNNING"


@pytest.mark.parametrize("document", ["[" * 65 + "]" * 65, "9" * 1001])
def test_a_result_that_no_python_could_read_is_refused(q: Queue, document: str) -> None:
    q.enqueue()
    row = dequeue(q)
    fence = (row["id"], row["worker_id"], row["claim_no"])
    code, message, hint = refused(
        lambda: q.value("select queues.complete_task(%s, %s, %s, %s::jsonb)", *fence, document)
    )
    assert (code, message.startswith("result "), bool(hint)) == ("RQ002", True, True)
    assert q.task(row["id"])["status"] == "RUNNING"


def test_a_worker_in_another_language_sees_cancels_by_heartbeat(q: Queue) -> None:
    q.enqueue()
    row = dequeue(q)
    q.cancel(row["id"])
    (answer,) = q.call(
        "heartbeat", worker_id=row["worker_id"], ids=[row["id"]], claim_nos=[row["claim_no"]], lease="30 s"
    )
    assert answer["answer"] == "cancelled"
    assert complete(q, row) == "cancelled"


def test_it_all_works_for_the_workers_role(q: Queue) -> None:
    worker = q.database.connect("worker")
    q.enqueue()
    (row,) = q.rows("select * from queues.dequeue_next_available_task()", by=worker)
    fence = (row["id"], row["worker_id"], row["claim_no"])
    assert q.value("select queues.complete_task(%s, %s, %s)", *fence, by=worker) == "done"
