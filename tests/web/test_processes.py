"""A business process is waited for as a task is: a front end waits for the login mail."""

from __future__ import annotations

from reproq.tickets import ticket
from tests.web.conftest import TICKET_KEY, Gateway
from tests.web.test_tasks import problem

SEND = "select comms.send_email('ada@example.org', 'Hello', text_body => 'Hi')"
FAILED = """
    insert into comms.send_email_task_ended (send_email_task_id, outcome, reason)
    values (%s, 'failed', 'no such box')"""


def test_a_process_is_waited_for(gateway: Gateway) -> None:
    ((number,),) = gateway.database.connect("app").execute(SEND).fetchall()
    path = f"/v1/processes/comms.send_email/{number}"
    first = gateway.get(path)
    assert (first.status, first.json["over"], first.json["status"]["state"]) == (202, False, "scheduled")
    assert first.headers["Location"] == first.json["next"] == f"{path}?wait=30"
    waiting = gateway.later(
        f"{path}?wait=60", token=ticket(int(str(number)), key=TICKET_KEY, process="comms.send_email")
    )
    gateway.await_waiting(1)
    gateway.database.execute(FAILED, number)
    answer, _ = waiting.result(60)
    assert (answer.status, answer.json["over"]) == (200, True)
    assert (answer.json["process"], answer.json["status"]["state"]) == ("comms.send_email", "failed")


def test_what_is_no_process_or_not_ours_is_not_there(gateway: Gateway) -> None:
    ((number,),) = gateway.database.execute(SEND)
    for path in (
        f"comms.send_email/{number}", "comms.send_email/999", "comms.nothing/1", "queues.task/1",
        "pg_catalog.pg_sleep/1", "send_email/1", "comms.send_email_task/1", 'comms."x"/1', "comms.send_email%00/1",
    ):  # fmt: skip
        for wait in ("", "?wait=5"):
            answer = gateway.get(f"/v1/processes/{path}{wait}")
            assert (answer.status, problem(answer)) == (404, "not-found"), path
    made = gateway.post("/v1/tickets", {"id": 999, "process": "comms.send_email"})
    assert made.status == 404


def test_a_process_that_cannot_be_asked_harms_nobody_else(gateway: Gateway) -> None:
    ((number,),) = gateway.database.connect("app").execute(SEND).fetchall()
    path = f"/v1/processes/comms.send_email/{number}"
    assert gateway.get(path).status == 202
    gateway.database.execute("alter function comms.send_email_status(bigint) rename to hidden")
    numbers = gateway.enqueue(), gateway.enqueue("shop.other")
    waiting = gateway.later(f"{path}?wait=60")
    gateway.await_event("database_error")
    gateway.held(*numbers)
    for one, held in zip(numbers, gateway.open, strict=True):
        gateway.finish(one)
        assert held.recv(20).startswith(b"HTTP/1.1 200")
    gateway.database.execute("alter function comms.hidden(bigint) rename to send_email_status")
    gateway.database.execute(FAILED, number)
    assert waiting.result(60)[0].json["status"]["state"] == "failed"
