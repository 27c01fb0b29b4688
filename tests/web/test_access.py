"""Who may do what: tokens with scopes and limits, tickets for browsers."""

from __future__ import annotations

import time

import pytest

from reproq.tickets import TicketError, keys, opened, ticket
from reproq.web.callers import REMEMBERED_S
from tests.conftest import Database
from tests.web.conftest import TICKET_KEY, Answer, Gateway, Serve, away
from tests.web.test_tasks import PAY, problem
from tests.worker.harness import wait_until

OTHER_KEY = "another-ticket-key-0123456789abcdefghij"


def test_without_a_good_token_nothing_is_told(gateway: Gateway) -> None:
    number = gateway.enqueue()
    expired = gateway.make_token(name="old", expires_in="1 microsecond")
    for header in (
        "",
        "Bearer",
        "Bearer x",
        "Basic dTpw",
        f"Bearer {gateway.token}x",
        f"Bearer {expired}",
        "Bearer rqt1~",
    ):
        answer = gateway.get(f"/v1/tasks/{number}", token="", **({"Authorization": header} if header else {}))
        assert (answer.status, problem(answer)) == (401, "unauthorized"), header
        assert answer.headers["WWW-Authenticate"].startswith("Bearer ")
    assert gateway.get(f"/v1/tasks/{number}?ticket={gateway.token}", token="").status == 401
    assert gateway.get(f"/v1/tasks/{number}?ticket=x").status == 401


def test_each_scope_opens_its_own_doors_only(gateway: Gateway) -> None:
    number = gateway.enqueue()
    doors = {
        "tasks:read": ("GET", f"/v1/tasks/{number}", None),
        "tasks:write": ("POST", "/v1/tasks", PAY),
        "tasks:cancel": ("POST", f"/v1/tasks/{number}/cancel", None),
        "processes:read": ("GET", "/v1/processes/comms.send_email/1", None),
        "tickets:issue": ("POST", "/v1/tickets", {"id": number}),
    }
    tokens = {scope: gateway.make_token(scope, name=scope.replace(":", "-")) for scope in doors}
    tokens["tickets:issue"] = gateway.make_token("tickets:issue", "tasks:read", name="issuer")
    for scope, token in tokens.items():
        for wanted, (method, path, body) in doors.items():
            answer = gateway.ask(method, path, body, token=token)
            if scope == wanted or (scope == "tickets:issue" and wanted == "tasks:read"):
                assert answer.status in (200, 201, 202, 404), (scope, wanted, answer.body)
            else:
                assert (answer.status, problem(answer)) == (403, "scope-missing"), (scope, wanted)


def test_who_may_not_read_a_task_gets_no_ticket_that_reads_it(gateway: Gateway) -> None:
    token = gateway.make_token("tasks:write", "tickets:issue", name="writer")
    answer = gateway.post("/v1/tasks", PAY | {"ticket": 60}, token=token)
    assert (answer.status, problem(answer)) == (403, "scope-missing")
    assert gateway.database.execute("select count(*) from queues.task_runs") == [(0,)]
    assert gateway.post("/v1/tasks", PAY, token=token).status == 201


def test_a_token_may_be_limited_to_queues_and_types(gateway: Gateway) -> None:
    token = gateway.make_token(name="reports", queues=["slow"], prefixes=["report."])
    good = {"task_type": "report.month", "queue_name": "slow"}
    stored = gateway.post("/v1/tasks", good, token=token)
    assert stored.status == 201
    for body in (good | {"task_type": "reports"}, {"task_type": "report.month"}, PAY):
        answer = gateway.post("/v1/tasks", body, token=token)
        assert (answer.status, problem(answer)) == (403, "out-of-reach")
    number = gateway.enqueue()
    assert gateway.get(f"/v1/tasks/{number}", token=token).status == 404
    assert gateway.get(f"/v1/tasks/{number}?wait=60", token=token).status == 404
    assert gateway.post(f"/v1/tasks/{number}/cancel", token=token).status == 404
    assert gateway.post("/v1/tickets", {"id": number}, token=token).status == 404
    assert gateway.get(stored.json["url"], token=token).status == 202
    assert gateway.post(f"{stored.json['url']}/cancel", token=token).status == 200


def test_a_revoked_token_is_refused_within_five_seconds(gateway: Gateway) -> None:
    assert gateway.get("/v1/tasks/1").status == 404
    assert gateway.database.execute("select queues.revoke_token('test')") == [("revoked",)]
    began = time.monotonic()
    wait_until(lambda: gateway.get("/v1/tasks/1").status == 401, "the revocation")
    assert time.monotonic() - began < 15  # five, and what a busy machine adds


def test_a_token_costs_a_look_now_and_then_and_not_for_each_request(gateway: Gateway) -> None:
    sql = "select calls from pg_stat_user_functions where funcname = 'use_token'"
    gateway.database.execute("alter database " + gateway.database.name + " set track_functions = 'all'")
    gateway.database.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name like 'reproq serve%'"
    )
    began = time.monotonic()
    for _ in range(20):
        assert gateway.get("/v1/tasks/1").status == 404
    at_most = 2 + (time.monotonic() - began) / 5
    calls = gateway.database.execute(sql)
    assert not calls or calls[0][0] <= at_most


def test_wrong_tokens_are_told_in_sum_and_nothing_secret_is_logged(gateway: Gateway) -> None:
    number = gateway.enqueue()
    wrong = "rq_" + "w" * 43
    made = gateway.post("/v1/tickets", {"id": number}).json["ticket"]
    for _ in range(3):
        gateway.get(f"/v1/tasks/{number}", token=wrong)
    assert gateway.get(f"/v1/tasks/{number}?ticket={made}", token="").status == 202
    gateway.get(f"/v1/tasks/{number}?ticket={made}x", token="")
    gateway.get("/v1/tasks/1%0d%0aX-Evil:%201")
    (line, *_) = gateway.await_event("tokens_refused")
    assert (line["count"], line["last_peer"]) == (1, "127.0.0.1")
    gateway.await_event("http_request", 6)
    text = gateway.err.read_text()
    for secret in (wrong, gateway.token, made, TICKET_KEY):
        assert secret not in text
    assert [line["message"] for line in gateway.events("http_request")].count(f"GET /v1/tasks/{number}") == 5


def seen(gateway: Gateway, path: str, made: str) -> Answer:
    return gateway.get(f"{path}?ticket={made}", token="")


def test_a_ticket_opens_its_own_task_and_nothing_else(gateway: Gateway) -> None:
    stored = gateway.post("/v1/tasks", PAY | {"ticket": 60}).json
    made, other = stored["ticket"], gateway.enqueue()
    assert seen(gateway, stored["url"], made).status == 202
    assert gateway.get(stored["url"], token=made).status == 202
    assert problem(seen(gateway, f"/v1/tasks/{other}", made)) == "another-ones"
    assert problem(seen(gateway, f"/v1/processes/comms.send_email/{stored['id']}", made)) == "another-ones"
    for path, body in (("/v1/tasks", PAY), (f"{stored['url']}/cancel", None), ("/v1/tickets", {"id": other})):
        assert problem(gateway.post(path, body, token=made)) == "ticket-only-reads"
    again = gateway.post("/v1/tickets", {"id": stored["id"], "expires_in": 60})
    assert (again.status, again.json["url"]) == (201, stored["url"])
    assert seen(gateway, stored["url"], again.json["ticket"]).status == 202


def test_a_ticket_of_the_applications_own_making_opens_too_and_a_changed_one_does_not(gateway: Gateway) -> None:
    number = gateway.enqueue()
    path = f"/v1/tasks/{number}"
    made = ticket(number, key=TICKET_KEY, expires_in=60)
    assert seen(gateway, path, made).status == 202
    version, scope, kind, of, expiry, mac = made.split("~")
    later = str(int(expiry) + 1)
    for changed in (
        (version, scope, kind, of, later, mac),
        (version, "write", kind, of, expiry, mac),
        (version, scope, "comms.send_email", of, expiry, mac),
        (version, scope, kind, str(number + 1), expiry, mac),
        (version, scope, kind, of, expiry, mac[:-1] + ("A" if mac[-1] != "A" else "B")),
        (version, scope, kind, of, expiry, ""),
        (version, scope, kind, f"0{of}", expiry, mac),
    ):
        assert seen(gateway, path, "~".join(changed)).status == 401, changed
    assert seen(gateway, path, ticket(number, key=OTHER_KEY)).status == 401


def test_keys_of_tickets_change_while_tickets_are_out(serve: Serve) -> None:
    gateway = serve(REPROQ_TICKET_KEY=f"{OTHER_KEY},{TICKET_KEY}")
    gateway.token = gateway.make_token()
    number = gateway.enqueue()
    for key in (TICKET_KEY, OTHER_KEY):
        assert seen(gateway, f"/v1/tasks/{number}", ticket(number, key=key)).status == 202
    made = gateway.post("/v1/tickets", {"id": number}).json["ticket"]
    assert opened(made, [OTHER_KEY]).id == number


def test_without_a_key_there_are_no_tickets(serve: Serve) -> None:
    gateway = serve(REPROQ_TICKET_KEY="")
    gateway.token = gateway.make_token()
    number = gateway.enqueue()
    assert problem(gateway.post("/v1/tickets", {"id": number})) == "no-ticket-key"
    assert problem(gateway.post("/v1/tasks", PAY | {"ticket": 60})) == "no-ticket-key"
    assert gateway.database.execute("select count(*) from queues.task_runs") == [(1,)]
    assert seen(gateway, f"/v1/tasks/{number}", ticket(number, key=TICKET_KEY)).status == 401


def test_one_ticket_cannot_take_all_places(gateway: Gateway) -> None:
    number = gateway.enqueue()
    token, gateway.token = gateway.token, ticket(number, key=TICKET_KEY)
    gateway.held(*[number] * 20)
    refused = gateway.get(f"/v1/tasks/{number}?wait=5")
    assert (refused.status, problem(refused)) == (429, "too-many-waits")
    assert gateway.get(f"/v1/tasks/{number}?wait=1", token=token).status == 202


def test_pages_of_named_origins_may_ask_and_no_others(serve: Serve) -> None:
    gateway = serve("--cors-origin", "https://shop.example")
    gateway.token = gateway.make_token()
    number = gateway.enqueue()
    for origin, allowed in (("https://shop.example", "https://shop.example"), ("https://evil.example", None)):
        answer = gateway.get(f"/v1/tasks/{number}", Origin=origin)
        assert answer.headers["Access-Control-Allow-Origin"] == allowed
        assert "Origin" in answer.headers["Vary"]
        asked = gateway.ask(
            "OPTIONS", f"/v1/tasks/{number}", token="", Origin=origin, Access_Control_Request_Method="GET"
        )
        assert (asked.status, asked.headers["Access-Control-Allow-Origin"]) == (204, allowed)
        assert (asked.headers["Access-Control-Allow-Methods"] is None) == (allowed is None)
    assert gateway.get(f"/v1/tasks/{number}", Origin="null").headers["Access-Control-Allow-Origin"] is None


def test_tickets_as_values() -> None:
    made = ticket(7, key=TICKET_KEY, expires_in=100)
    now = time.time()
    assert opened(made, [TICKET_KEY]).id == 7
    assert made.startswith("rqt1~read~task~7~")
    assert ticket(7, key=TICKET_KEY, process="comms.send_email").startswith("rqt1~read~comms.send_email~7~")
    for late, why in ((now + 101, "expired"), (now - 90_000, "more than")):
        with pytest.raises(TicketError, match=why):
            opened(made, [TICKET_KEY], late)
    for wrong in (
        {"expires_in": 0.0},
        {"expires_in": 90_000.0},
        {"process": "x"},
        {"process": "a~b.c"},
        {"key": "short"},
    ):
        with pytest.raises(TicketError):
            ticket(7, **{"key": TICKET_KEY, **wrong})  # type: ignore[arg-type]
    with pytest.raises(TicketError):
        keys(",".join([TICKET_KEY] * 3))


def test_the_format_is_what_the_guide_says() -> None:
    """Other languages make tickets by it."""
    import base64
    import hashlib
    import hmac

    head, _, mac = ticket(7, key=TICKET_KEY).rpartition("~")
    digest = hmac.new(TICKET_KEY.encode(), head.encode(), hashlib.sha256).digest()
    assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == mac


def test_metrics_are_for_their_scope(gateway: Gateway) -> None:
    reader = gateway.make_token("metrics:read", name="scraper")
    gateway.get("/v1/tasks/424242")
    found = gateway.get("/metrics", token=reader)
    assert (found.status, found.headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    line = b'reproq_gateway_requests_total{route="/v1/tasks/{id}",method="GET",status="404"} 1'
    assert line in found.body
    assert problem(gateway.get("/metrics", token=gateway.make_token("tasks:read", name="other"))) == "scope-missing"
    assert gateway.get("/metrics", token="").status == 401


def test_metrics_are_told_while_the_database_is_away(gateway: Gateway, database: Database) -> None:
    """For longer than what a token may do is remembered; to one that was never seen to be good they aren't."""
    reader, other = (gateway.make_token("metrics:read", name=name) for name in ("scraper", "late"))
    assert gateway.get("/metrics", token=reader).status == 200
    with away(database):
        began = time.monotonic()
        while time.monotonic() - began < REMEMBERED_S + 1:
            assert gateway.get("/metrics", token=reader).status == 200
        assert gateway.get("/metrics", token=other).status == 503
        assert gateway.get("/v1/tasks/1", token=reader).status in (403, 503)
