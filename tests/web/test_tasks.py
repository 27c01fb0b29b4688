"""Enqueue, ask, cancel; and what bad input gets."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tests.web.conftest import Answer, Gateway

PAY = {"task_type": "shop.pay", "payload": {"invoice": 7}}


def problem(answer: Answer) -> str:
    """The word of a refusal, which has to be one."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    found = answer.json
    assert found["status"] == answer.status
    assert found["detail"]
    return str(found["type"]).removeprefix("urn:reproq:problem:")


def test_a_task_is_stored_and_asked_for(gateway: Gateway) -> None:
    stored = gateway.post("/v1/tasks", PAY)
    assert (stored.status, stored.json["is_new"]) == (201, True)
    assert stored.headers["Location"] == stored.json["url"]
    answer = gateway.get(stored.json["url"])
    assert (answer.status, answer.json["status"], answer.json["over"]) == (202, "PENDING", False)
    assert answer.headers["Location"] == answer.json["next"] == f"{stored.json['url']}?wait=30"
    gateway.finish(stored.json["id"], {"paid": True})
    answer = gateway.get(stored.json["url"])
    assert (answer.status, answer.json["result"], answer.json["over"]) == (200, {"paid": True}, True)
    assert "payload" not in answer.json


def test_every_argument_arrives(gateway: Gateway) -> None:
    first = gateway.post("/v1/tasks", PAY).json["id"]
    body = PAY | {
        "queue_name": "slow", "priority": 7, "delay": 3600, "max_attempts": 9, "timeout": 1.5, "limit_key": "k",
        "unique_among": "active", "after": [first], "after_policy": "over", "trace": "t",
    }  # fmt: skip
    number = gateway.post("/v1/tasks", body).json["id"]
    row = gateway.database.execute(
        "select queue_name, priority, max_attempts, timeout_s, limit_key, unique_among, trace, waiting_for,"
        " run_after > now() + interval '59 min', created_by from queues.task_runs where id = %s", number,
    )  # fmt: skip
    assert row == [("slow", 7, 9, 1.5, "k", "active", "t", 2, True, "reproq_app_login")]
    moment = PAY | {"scheduled_at": "2031-02-28T12:00:00.5+01:00"}
    number = gateway.post("/v1/tasks", moment).json["id"]
    ((due,),) = gateway.database.execute(
        "select (run_after at time zone 'UTC')::text from queues.task_runs where id = %s", number
    )
    assert due == "2031-02-28 11:00:00.5"


def test_the_same_key_answers_the_first_task_and_another_body_is_refused(gateway: Gateway) -> None:
    first, again = (gateway.post("/v1/tasks", PAY, Idempotency_Key="invoice-7") for _ in range(2))
    assert (first.status, again.status) == (201, 200)
    assert (first.json["id"], again.json["is_new"]) == (again.json["id"], False)
    other = gateway.post("/v1/tasks", PAY | {"payload": {"invoice": 8}}, Idempotency_Key="invoice-7")
    assert (other.status, problem(other)) == (422, "key-used-before")
    assert gateway.database.execute("select count(*) from queues.task_runs") == [(1,)]
    for key in (" ", "", "x" * 501, "ü"):
        assert problem(gateway.post("/v1/tasks", PAY, Idempotency_Key=key)) == "bad-idempotency-key", key


def test_a_number_keeps_its_digits(gateway: Gateway) -> None:
    body = b'{"task_type": "a.b", "payload": {"n": 1.000000000000000000000001, "i": 123456789012345678901234567890}}'
    number = gateway.post("/v1/tasks", body).json["id"]
    ((text,),) = gateway.database.execute("select payload_json::text from queues.task_runs where id = %s", number)
    assert text == '{"i": 123456789012345678901234567890, "n": 1.000000000000000000000001}'


DEEP = b'{"task_type": "a.b", "payload": ' + b'{"a":' * 100 + b"1" + b"}" * 101
REFUSED: list[tuple[bytes, int, str]] = [
    (b"", 400, "not-json"),
    (b"{", 400, "not-json"),
    (b"\xff\xfe", 400, "not-json"),
    (b'{"task_type": NaN}', 400, "not-json"),
    (b"[]", 422, "not-valid"),
    (b"null", 422, "not-valid"),
    (b"{}", 422, "not-valid"),
    (b'{"task_type": "a b"}', 422, "not-valid"),
    (b'{"task_type": "a.b", "payload": [1]}', 422, "not-valid"),
    (b'{"task_type": "a.b", "prioritty": 1}', 422, "not-valid"),
    (b'{"task_type": "a.b", "priority": "1"}', 422, "not-valid"),
    (b'{"task_type": "a.b", "priority": 1234567890123456789}', 422, "not-valid"),
    (b'{"task_type": "a.b", "delay": 1, "scheduled_at": "2031-01-01T00:00:00Z"}', 422, "not-valid"),
    (b'{"task_type": "a.b", "scheduled_at": "2031-01-01"}', 422, "not-valid"),
    (b'{"task_type": "a.b", "after": [424242]}', 422, "refused"),
    (b'{"task_type": "a.b", "payload": {"x": "\\u0000"}}', 422, "not-storable"),
    (b'{"task_type": "a.b", "payload": {"x": "\\ud800"}}', 422, "not-storable"),
    (b'{"task_type": "a.b", "payload": {"x": ' + b"9" * 5000 + b"}}", 422, "not-storable"),
    (b'{"task_type": "a.b", "payload": {"x": 1e400}}', 422, "not-storable"),
    (DEEP, 422, "not-storable"),
    (b"[" * 100_000, 422, "not-storable"),
    (b'{"task_type": "a.b", "payload": {"x": "' + b"x" * 1_100_000 + b'"}}', 422, "refused"),
    (b'{"task_type": "email"}', 403, "not-granted"),
    (b'{"task_type": "db_function", "payload": {"db_function": "queues.claim"}}', 403, "not-granted"),
    (b"x" * 3_000_000, 413, "too-large"),
]


def test_a_bad_body_gets_a_problem_and_stores_nothing(gateway: Gateway) -> None:
    for body, status, word in REFUSED:
        answer = gateway.post("/v1/tasks", body)
        assert (answer.status, problem(answer)) == (status, word), body[:80]
        assert b"Traceback" not in answer.body
        assert b"dictionary" not in answer.body
        assert b"Value error" not in answer.body  # Python's words, and a pattern of 200 characters, help nobody
        assert len(answer.body) < 700
    for kind in ("text/plain", "application/json; charset=latin-1", "application/x-www-form-urlencoded", ""):
        assert gateway.post("/v1/tasks", PAY, Content_Type=kind).status == 415, kind
    assert gateway.post("/v1/tasks", PAY, Content_Type='application/json; charset="UTF-8"').status == 201
    assert gateway.database.execute("select count(*) from queues.task_runs") == [(1,)]


def test_an_id_that_is_none_is_not_found(gateway: Gateway) -> None:
    for path in ("0", "-1", "x", "9223372036854775808", "99999999999999999999", "%00", "1.0", "٧", "1%20"):
        for tail in ("", "/events"):
            answer = gateway.get(f"/v1/tasks/{quote(path, safe='%')}{tail}")
            assert (answer.status, problem(answer)) == (404, "not-found"), path


def test_what_cannot_be_asked_is_said(gateway: Gateway) -> None:
    for path in ("/", "/v1", "/v1/tasks/", "/v1/tasks/1/", "/v1/tasks/1/other", "//v1/tasks/1", "/v1/../etc/passwd"):
        assert gateway.get(path).status == 404, path
    for method, path, allowed in (
        ("GET", "/v1/tasks", "OPTIONS, POST"),
        ("DELETE", "/v1/tasks/1", "GET, HEAD, OPTIONS"),
        ("BREW", "/v1/tickets", "OPTIONS, POST"),
    ):
        answer = gateway.ask(method, path)
        assert (answer.status, problem(answer), answer.headers["Allow"]) == (405, "method-not-allowed", allowed)
    for query in ("wait=61", "wait=-1", "wait=1s", "wait=", "wait=1&wait=2", "wiat=1", "wait=1.5", "x"):
        assert problem(gateway.get(f"/v1/tasks/1?{query}")) == "bad-parameter", query
    assert gateway.ask("OPTIONS", "/v1/tasks/1", token="").headers["Allow"] == "GET, HEAD, OPTIONS"


def test_head_is_get_without_a_body(gateway: Gateway) -> None:
    number = gateway.enqueue()
    head, get = (gateway.ask(method, f"/v1/tasks/{number}") for method in ("HEAD", "GET"))
    assert (head.status, head.body) == (get.status, b"")
    assert head.headers["Content-Length"] == str(len(get.body))
    assert gateway.ask("HEAD", f"/v1/tasks/{number}/events").headers["Content-Type"].startswith("text/event-stream")


def test_every_answer_has_the_headers_that_keep_it_private(gateway: Gateway) -> None:
    for answer in (
        gateway.get("/v1/tasks/1"),
        gateway.get("/x"),
        gateway.get("/livez"),
        gateway.get("/v1/openapi.json"),
    ):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.headers["Strict-Transport-Security"]
        assert answer.headers["Server"] is None


def test_cancel(gateway: Gateway) -> None:
    waiting, running, over = (gateway.enqueue(n=n) for n in range(3))
    gateway.claim(running)
    gateway.finish(over)
    found: list[tuple[int, Any]] = []
    for number in (waiting, running, over, 424242):
        answer = gateway.post(f"/v1/tasks/{number}/cancel", {"reason": "customer left"})
        found.append((answer.status, answer.json.get("answer") or problem(answer)))
    assert found == [(200, "cancelled"), (202, "stopping"), (409, "too-late"), (404, "not-found")]
    assert gateway.get(f"/v1/tasks/{waiting}").json["error"] == "customer left"
    assert json.loads(gateway.post(f"/v1/tasks/{waiting}/cancel").body)["answer"] == "cancelled"


def test_tasks_of_other_logins_are_not_there(gateway: Gateway) -> None:
    ((number,),) = gateway.database.execute("select queues.enqueue('shop.pay')")
    for answer in (gateway.get(f"/v1/tasks/{number}"), gateway.get(f"/v1/tasks/{number}?wait=60"),
                   gateway.get(f"/v1/tasks/{number}/events"), gateway.post(f"/v1/tasks/{number}/cancel"),
                   gateway.post("/v1/tickets", {"id": number})):  # fmt: skip
        assert answer.status == 404
