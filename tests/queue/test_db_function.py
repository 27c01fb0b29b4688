"""A db_function's writes and its finish are one transaction, or none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection
from reproq.db.embedded import EmbeddedServer

from . import shop
from .conftest import Claimed, Queue, at_once, refused, wait_until


@pytest.fixture(scope="module")
def installed(server: EmbeddedServer, shared_databases: Callable[[EmbeddedServer], Queue]) -> Iterator[None]:
    with shop.installed(shared_databases(server)):
        yield


@pytest.fixture
def worker(q: Queue, installed: None) -> Connection:
    q.rows("delete from shop.log")
    return q.database.connect("worker")


def run(q: Queue, held: Claimed, by: Connection) -> dict[str, Any]:
    payload = Jsonb(held.row["payload_json"])
    outcome = q.value("select internal.run_task(%s, %s, %s, %s)", held.worker, held.id, held.claim_no, payload, by=by)
    return dict(outcome)


def test_a_success_keeps_its_writes_and_finishes_in_the_same_transaction(q: Queue, worker: Connection) -> None:
    held = shop.claim_function(q, "shop.answer", note="a", answer={"success": True, "payload": {"n": 1}})
    with worker.transaction():
        assert run(q, held, worker)["success"] is True
        assert (shop.notes(q), q.task(held.id)["status"]) == ([], "RUNNING")
    task = q.task(held.id)
    assert (shop.notes(q), task["status"], task["result_json"], task["leased_until"]) == (
        ["a"],
        "SUCCESSFUL",
        {"n": 1},
        None,
    )
    assert task["started_at"] is not None


def test_it_runs_by_the_grants_of_the_worker(q: Queue, worker: Connection) -> None:
    held = shop.claim_function(q, "shop.who")
    run(q, held, worker)
    assert q.task(held.id)["result_json"] == "reproq_worker"


def test_a_validation_failure_keeps_its_writes_and_is_not_retried(q: Queue, worker: Connection) -> None:
    answer = {"success": False, "validation_failure_message": "no such customer"}
    held = shop.claim_function(q, "shop.answer", note="kept", answer=answer)
    run(q, held, worker)
    task = q.task(held.id)
    assert (task["status"], task["failure_kind"], task["last_error"]) == ("FAILED", "validation", "no such customer")
    assert shop.notes(q) == ["kept"]
    (error,) = q.rows("select task_id, function_name, message from queues.error")
    assert error == {"task_id": held.id, "function_name": "shop.answer", "message": "no such customer"}


def test_an_error_takes_its_writes_back_and_is_retried(q: Queue, worker: Connection) -> None:
    held = shop.claim_function(q, "shop.answer", note="gone", answer={"success": False, "error": "not now"})
    run(q, held, worker)
    task = q.task(held.id)
    assert (task["status"], task["failure_kind"], task["last_error"]) == ("RETRYING", "raised", "not now")
    assert shop.notes(q) == []


def test_an_error_may_say_when_to_retry_and_whether(q: Queue, worker: Connection) -> None:
    later = shop.claim_function(q, "shop.answer", answer={"success": False, "error": "x", "retry_in_s": 3600})
    run(q, later, worker)
    assert q.value("select run_after > now() + interval '59 minutes' from queues.task_runs where id = %s", later.id)
    never = shop.claim_function(q, "shop.answer", answer={"success": False, "error": "x", "final": True})
    run(q, never, worker)
    assert q.task(never.id)["status"] == "FAILED"


BAD: list[Any] = [
    None, 5, "done", [], {}, {"success": None}, {"success": "true"}, {"success": 1}, {"success": False},
    {"success": True, "error": "x"}, {"success": True, "validation_failure_message": "x"},
    {"success": False, "error": "x", "validation_failure_message": "y"}, {"success": False, "error": ""},
    {"success": False, "error": "x", "retry_in_s": "soon"}, {"success": False, "error": "x", "retry_in_s": -1},
    {"success": False, "error": "x", "final": "yes"}, {"success": False, "snooze_s": -1},
    {"success": False, "snooze_s": "soon"}, {"success": False, "snooze_s": 1e12},
    {"success": True, "error": "", "snooze_s": None, "final": 1},
]  # fmt: skip


@pytest.mark.parametrize("answer", BAD, ids=str)
def test_any_other_answer_is_a_bad_envelope_and_takes_everything_back(
    q: Queue, worker: Connection, answer: Any
) -> None:
    held = shop.claim_function(q, "shop.answer", note="gone", **({} if answer is None else {"answer": answer}))
    run(q, held, worker)
    task = q.task(held.id)
    assert (task["status"], task["failure_kind"]) == ("RETRYING", "bad_envelope")
    assert shop.notes(q) == []


def test_a_result_that_no_python_could_read_is_a_bad_envelope(q: Queue, worker: Connection) -> None:
    held = shop.claim_function(q, "shop.answer")
    payload = '{"db_function": "shop.answer", "answer": {"success": true, "payload": ' + "[" * 65 + "]" * 65 + "}}"
    q.rows("select internal.run_task(%s, %s, %s, %s::jsonb)", held.worker, held.id, held.claim_no, payload, by=worker)
    assert q.task(held.id)["failure_kind"] == "bad_envelope"
    assert "nested deeper" in q.task(held.id)["last_error"]


@pytest.mark.parametrize("code", ["P0001", "22012", "RQ005", "RQ008", "RQ007", "40001"])
def test_an_exception_takes_its_writes_back_and_is_retried(q: Queue, worker: Connection, code: str) -> None:
    held = shop.claim_function(q, "shop.raises", code=code, message="broke")
    run(q, held, worker)
    task = q.task(held.id)
    assert (task["status"], task["failure_kind"], task["last_error"]) == ("RETRYING", "raised", "broke")
    assert task["error_json"]["sqlstate"] == code
    assert "shop.raises" in task["error_json"]["context"]
    assert shop.notes(q) == []


@pytest.mark.parametrize("name", [None, "shop.missing", "shop.secret", "pg_catalog.jsonb_pretty"])
def test_a_function_that_may_not_be_called_ends_the_task_at_once(
    q: Queue, worker: Connection, name: str | None
) -> None:
    held = shop.claim_function(q, name)
    run(q, held, worker)
    assert (q.task(held.id)["status"], q.task(held.id)["failure_kind"]) == ("FAILED", "no_handler_registered")


@pytest.mark.parametrize("gone", ["reclaimed", "cancelled", "finished"])
def test_a_lost_fence_takes_everything_back(q: Queue, worker: Connection, gone: str) -> None:
    held = shop.claim_function(q, "shop.answer", note="gone", answer={"success": True})
    if gone == "reclaimed":
        q.expire(held.id)
        q.reclaim()
    elif gone == "cancelled":
        q.cancel(held.id)
    else:
        q.succeed(held)
    before = q.task(held.id)
    code, message, _ = refused(lambda: run(q, held, worker))
    assert (code, str(held.id) in message) == ("RQ007", True)
    assert shop.notes(q) == []
    assert q.task(held.id) == before


def test_a_constraint_that_fails_at_the_commit_takes_the_finish_back_too(q: Queue, worker: Connection) -> None:
    held = shop.claim_function(q, "shop.orphan")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        run(q, held, worker)
    assert q.task(held.id)["status"] == "RUNNING"
    assert q.fail(held) == "done"


def test_while_it_runs_its_row_is_not_locked_and_heartbeats_extend_it(q: Queue, worker: Connection) -> None:
    held = shop.claim_function(q, "shop.waits")
    gate = q.database.connect()
    begun = threading.Event()

    def act(number: int) -> str:
        if number == 0:
            assert begun.wait(20)
            return str(run(q, held, worker)["success"])
        with gate.transaction():
            gate.execute("select pg_advisory_xact_lock(42)")
            begun.set()
            wait_until(lambda: q.waits_for_a_lock(worker))
            return q.heartbeat(held, lease="1 hour")

    assert at_once(2, act) == ["True", "kept"]
    assert q.task(held.id)["status"] == "SUCCESSFUL"


def test_a_function_can_not_make_its_commit_less_durable(q: Queue, worker: Connection) -> None:
    held = shop.claim_function(q, "shop.careless")
    with worker.transaction():
        run(q, held, worker)
        assert q.value("show synchronous_commit", by=worker) == "on"


def test_a_function_that_snoozes_keeps_its_writes_and_no_attempt(q: Queue, worker: Connection) -> None:
    held = shop.claim_function(q, "shop.answer", note="kept", answer={"success": False, "snooze_s": 60})
    run(q, held, worker)
    task = q.task(held.id)
    assert (task["status"], task["attempt_count"], task["leased_until"]) == ("PENDING", 0, None)
    assert q.value("select run_after > now() + interval '50 s' from queues.task_runs")
    assert len(shop.notes(q)) == 1
