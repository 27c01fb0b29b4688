"""Holding a question open: who is answered when, and what it costs the database."""

from __future__ import annotations

import signal
import ssl
import time

from tests.conftest import Database
from tests.web.conftest import Gateway, Serve, away
from tests.worker.harness import wait_until


def answer(waiter: ssl.SSLSocket) -> bytes:
    found = b""
    while piece := waiter.recv(65536):
        found += piece
    waiter.close()
    return found


def test_many_wait_by_one_connection_and_each_gets_its_own_answer(gateway: Gateway) -> None:
    numbers = [gateway.enqueue(n=n) for n in range(30)]
    waiters = gateway.held(*numbers)
    assert gateway.sessions() == 1
    for number in reversed(numbers):
        gateway.finish(number, {"number": number})
    for number, waiter in zip(numbers, waiters, strict=True):
        assert b'"result": {"number": %d}' % number in answer(waiter)


def test_nobody_looks_when_nobody_waits(gateway: Gateway) -> None:
    (waiter,) = gateway.held(gateway.enqueue())
    wait_until(lambda: gateway.counted("looks_total") > 0, "somebody looks for it")
    waiter.close()
    wait_until(lambda: gateway.counted("waiting") == 0, "the client that left is dropped")
    looks = gateway.counted("looks_total")
    gateway.get("/v1/tasks/1")
    assert gateway.counted("looks_total") <= looks + 1


def test_what_is_over_already_is_answered_at_once(gateway: Gateway) -> None:
    number = gateway.enqueue()
    gateway.finish(number, 7)
    began = time.monotonic()
    found = gateway.get(f"/v1/tasks/{number}?wait=60")
    assert (found.status, found.json["result"]) == (200, 7)
    assert time.monotonic() - began < 20


def test_a_failure_and_a_cancellation_are_ends_too(gateway: Gateway) -> None:
    failed, cancelled = gateway.enqueue(), gateway.enqueue("shop.other")
    waiters = gateway.held(failed, cancelled)
    gateway.database.execute(
        "update queues.task_runs set status = 'FAILED', failure_kind = 'raised', last_error = 'no money',"
        " completed_at = now(), error_json = '{\"traceback\": \"secret\"}' where id = %s", failed,
    )  # fmt: skip
    gateway.database.execute("select queues.cancel(%s, 'left')", cancelled)
    first, second = map(answer, waiters)
    assert b'"error": "no money"' in first
    assert b'"failure_kind": "raised"' in first
    assert b"secret" not in first
    assert b'"status": "CANCELLED"' in second


def test_a_cancelled_task_that_still_runs_is_not_over(gateway: Gateway) -> None:
    number = gateway.enqueue()
    gateway.claim(number)
    assert gateway.post(f"/v1/tasks/{number}/cancel").json == {"id": number, "answer": "stopping"}
    found = gateway.get(f"/v1/tasks/{number}?wait=1")
    assert (found.status, found.json["status"], found.json["over"]) == (202, "CANCELLED", False)
    gateway.database.execute("update queues.task_runs set leased_until = null where id = %s", number)
    assert gateway.get(f"/v1/tasks/{number}?wait=60").status == 200


def test_a_task_that_vanishes_is_told(gateway: Gateway) -> None:
    number = gateway.enqueue()
    (waiter,) = gateway.held(number)
    gateway.database.execute("select queues.soft_delete(%s, 'entered twice')", number)
    assert answer(waiter).startswith(b"HTTP/1.1 404 ")
    assert gateway.get("/v1/tasks/999999?wait=60").status == 404


def test_a_large_result_arrives_whole(gateway: Gateway) -> None:
    number = gateway.enqueue()
    (waiter,) = gateway.held(number)
    gateway.finish(number, {"text": "x" * 1_000_000, "number": 12345678901234567890})
    found = answer(waiter)
    assert len(found) > 1_000_000
    assert b'"number": 12345678901234567890' in found


def test_who_waits_survives_a_restart_of_the_database(gateway: Gateway) -> None:
    numbers = [gateway.enqueue(n=n) for n in range(50)]
    waiters = gateway.held(*numbers)
    gateway.database.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name like 'reproq serve%'"
    )
    gateway.await_event("database_lost")
    gateway.await_event("database_back")
    for number in numbers:
        gateway.finish(number, {"number": number})
    for number, waiter in zip(numbers, waiters, strict=True):
        assert b'"result": {"number": %d}' % number in answer(waiter)


def test_without_a_database_the_new_are_refused_and_the_old_wait_on(gateway: Gateway, database: Database) -> None:
    number = gateway.enqueue()
    (waiter,) = gateway.held(number)
    assert gateway.get("/readyz", token="").status == 200
    with away(database):
        gateway.await_event("database_lost")
        wait_until(lambda: gateway.get("/readyz", token="").status == 503, "not ready")
        refused = gateway.post("/v1/tasks", {"task_type": "shop.pay"})
        assert (refused.status, refused.headers["Content-Type"]) == (503, "application/problem+json")
        assert refused.headers["Retry-After"]
        assert gateway.get("/livez", token="").status == 200
    gateway.await_event("database_back")
    gateway.finish(number, 7)
    assert b'"result": 7' in answer(waiter)


def test_a_gateway_that_stops_answers_all_who_wait(gateway: Gateway) -> None:
    waiters = gateway.held(*(gateway.enqueue(n=n) for n in range(5)))
    gateway.signal(signal.SIGTERM)
    for waiter in waiters:
        found = answer(waiter)
        assert found.startswith(b"HTTP/1.1 202 ")
        assert b"connection: close" in found.lower()
        assert b"location: /v1/tasks/" in found.lower()
        assert b"retry-after: 1" in found.lower()
    assert gateway.process.wait(30) == 0
    gateway.await_event("gateway_stopped")


def test_more_than_the_limit_is_told_to_come_later(serve: Serve) -> None:
    gateway = serve("--max-waiters", "3")
    gateway.token = gateway.make_token()
    number = gateway.enqueue()
    gateway.held(number, number, number)
    refused = gateway.get(f"/v1/tasks/{number}?wait=5")
    assert (refused.status, refused.json["type"]) == (503, "urn:reproq:problem:too-many-waits")
    assert gateway.get(f"/v1/tasks/{number}").status == 202
