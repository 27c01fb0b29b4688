"""Mail and text messages through a real worker: to a real SMTP server, to fakes of the providers, to a folder."""

from __future__ import annotations

import asyncio
import email
import os
import signal
import socket
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from psycopg.types.json import Jsonb

from tests.channels.fakes import FakeResend, FakeTwilio, answers, loses_the_answer
from tests.worker.harness import House, Worker, wait_until


class Sink(Controller):
    """A mail server that answers as it is told, then accepts."""

    def __init__(self) -> None:
        self.replies: list[str] = []
        self.arrived: list[EmailMessage] = []
        self.asked = 0
        self.hold = False
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        super().__init__(self, hostname="127.0.0.1", port=port)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        self.asked += 1
        while self.hold:
            await asyncio.sleep(0.01)
        if self.replies:
            return self.replies.pop(0)
        message = email.message_from_bytes(envelope.content, policy=default)
        assert isinstance(message, EmailMessage)
        self.arrived.append(message)
        return "250 taken"


@pytest.fixture
def sink() -> Iterator[Sink]:
    sink = Sink()
    sink.start()
    yield sink
    sink.stop()


@pytest.fixture
def hurried(house: House) -> House:
    house.sql("update comms.setting set backoff_base = '10 ms', check_base = '100 ms', check_cap = '1 s'")
    return house


def _worker(house: House, **environ: str) -> Worker:
    own = {"REPROQ_SYSTEM_PROCESSES": "2", "REPROQ_LEASE": "3s", "REPROQ_HEARTBEAT": "1s"}
    return house.worker(**own | {"REPROQ_EMAIL_FROM": "shop@example.org", "REPROQ_SMS_FROM": "+15005550006"} | environ)


def _smtp(house: House, sink: Sink) -> Worker:
    url = f"smtp://127.0.0.1:{sink.port}?tls=none"
    return _worker(house, REPROQ_EMAIL_PROVIDER="smtp", REPROQ_SMTP_URL=url)


def _send(house: House, more: str = "", channel: str = "email") -> int:
    call = {
        "email": f"comms.send_email('ada@example.org', 'Grüße', '<p>Hi</p>', 'Hi ✓'{more})",
        "sms": f"comms.send_sms('+4917012345678', 'Your code: 42'{more})",
    }
    return int(house._app.execute(f"select {call[channel]}").fetchone()[0])


def _ended(house: House, send: int, channel: str = "email") -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        status: dict[str, Any] = house.one(f"select comms.send_{channel}_status(%s)", send)
        return status if "ended_at" in status else None

    found = wait_until(over, lambda: f"the end of send {send}: {house.story()}")
    assert found is not None
    return found


def test_the_flow_of_the_design_a_failure_a_retry_a_success(hurried: House, sink: Sink) -> None:
    sink.replies = ["451 try again"]
    worker = _smtp(hurried, sink)
    send = _send(hurried, ", max_attempts => 2")
    status = _ended(hurried, send)
    assert (status["state"], status["attempts"], status["failures"]) == ("succeeded", 2, 1)
    (message,) = sink.arrived
    assert (message["To"], message["From"], message["Subject"]) == ("ada@example.org", "shop@example.org", "Grüße")
    assert message["Message-ID"] == status["provider_message_id"]
    body = message.get_body(("plain",))
    assert body is not None
    assert body.get_content().strip() == "Hi ✓"
    assert hurried.one("select count(*) from queues.error where source = 'email'") == 1
    wait_until(lambda: hurried.one("select count(*) from queues.task_runs where status in ('PENDING', 'RUNNING')") == 0)
    assert worker.stop() == 0


def test_what_the_provider_said_stays_out_of_the_queue(hurried: House, sink: Sink) -> None:
    """It may hold addresses: it is kept with the message, where it can be erased."""
    sink.replies = ["550 5.1.1 no mailbox for ada@example.org"]
    _smtp(hurried, sink)
    status = _ended(hurried, _send(hurried))
    assert (status["state"], status["last_failure"]) == ("failed", "provider_refused")
    assert "ada@example.org" in hurried.one("select note from comms.send_email_task_note")
    queue = str(hurried.sql("select * from queues.error")) + str(
        hurried.sql("select to_jsonb(t) from queues.task_runs t")
    )
    assert "550" in queue
    assert "ada@" not in queue + hurried.story()


def test_a_server_that_cannot_be_reached_costs_no_attempt(hurried: House, sink: Sink) -> None:
    _worker(hurried, REPROQ_EMAIL_PROVIDER="smtp", REPROQ_SMTP_URL="smtp://127.0.0.1:9?tls=none")
    send = _send(hurried, ", max_attempts => 1")
    wait_until(lambda: hurried.one("select comms.count_send_email_task_failures(%s)", send) >= 3, hurried.story)
    hurried.workers[0].stop()
    _smtp(hurried, sink)
    assert _ended(hurried, send)["state"] == "succeeded"
    assert len(sink.arrived) == 1


def test_an_answer_of_resend_that_was_lost_is_asked_for_again_under_the_same_key(hurried: House) -> None:
    with FakeResend() as resend:
        resend.faults += [loses_the_answer("cut"), answers(429, Retry_After="0"), answers(500)]
        _worker(hurried, **resend.settings())
        status = _ended(hurried, _send(hurried))
        assert status["state"] == "succeeded"
        assert len(resend.accepted) == 1
        assert hurried.one("select count(*) from comms.send_email_task_unknown") == 1
        assert {kind for (kind,) in hurried.sql("select kind from comms.send_email_task_failed")} == {
            "provider_unavailable",
            "provider_refused",
        }


def test_an_answer_of_twilio_that_was_lost_is_looked_up(hurried: House) -> None:
    with FakeTwilio() as twilio:
        twilio.faults += [loses_the_answer("cut")]
        _worker(hurried, **twilio.settings())
        status = _ended(hurried, _send(hurried, channel="sms"), "sms")
        assert status["state"] == "succeeded"
        assert len(twilio.accepted) == 1
        purposes = hurried.sql("select purpose from comms.send_sms_task_scheduled order by attempt_no")
        assert purposes[0] == ("send",)
        assert set(purposes[1:]) == {("lookup",)}


def test_both_channels_go_to_a_folder_for_development(hurried: House, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    _worker(hurried, REPROQ_EMAIL_PROVIDER="file", REPROQ_SMS_PROVIDER="file", REPROQ_OUTBOX_DIR=str(folder))
    mail, text = _send(hurried), _send(hurried, channel="sms")
    assert _ended(hurried, mail)["state"] == _ended(hurried, text, "sms")["state"] == "succeeded"
    assert sorted(path.suffixes[-1] for path in folder.iterdir()) == [".eml", ".json"]


def test_a_worker_without_a_provider_leaves_mail_to_one_that_has_it(hurried: House, sink: Sink) -> None:
    hurried.app("@task('t')\ndef run(payload, ctx): pass\n")
    plain = _worker(hurried).ready()
    send = _send(hurried)
    wait_until(lambda: hurried.one("select comms.count_send_email_task_scheduled(%s)", send) == 1, hurried.story)
    hurried.final(hurried.enqueue("t"))
    assert hurried.one("select status::text from queues.task_runs where task_type = 'email'") == "PENDING"
    _smtp(hurried, sink)
    assert _ended(hurried, send)["state"] == "succeeded"
    assert plain.stop() == 0


def test_a_child_that_dies_while_it_sends_leaves_an_unknown_and_no_second_mail(hurried: House) -> None:
    with FakeTwilio() as twilio:
        twilio.faults += [loses_the_answer("hang")]
        worker = _worker(hurried, **twilio.settings()).ready()
        send = _send(hurried, channel="sms")
        twilio.wait_accepted(1)
        for child in worker.children():
            os.kill(child.pid, signal.SIGKILL)
        assert _ended(hurried, send, "sms")["state"] == "succeeded"
        assert len(twilio.accepted) == 1


@pytest.mark.parametrize("channel", ["email", "sms"])
def test_no_secret_of_a_provider_reaches_the_children_of_the_app(hurried: House, channel: str) -> None:
    secrets = {"RESEND_API_KEY": "re_canary_1", "TWILIO_AUTH_TOKEN": "canary_2", "TWILIO_ACCOUNT_SID": "AC" + "0" * 32}
    providers = {"REPROQ_EMAIL_PROVIDER": "resend", "REPROQ_SMS_PROVIDER": "twilio"}
    hurried.app("@task('t')\ndef run(payload, ctx): return dict(os.environ)\n")
    worker = _worker(
        hurried, **secrets, **providers, RESEND_API_URL="http://127.0.0.1:9", TWILIO_API_URL="http://127.0.0.1:9"
    )
    task = hurried.final(hurried.enqueue("t"))
    send = _send(hurried, channel=channel)
    wait_until(lambda: hurried.one(f"select comms.count_send_{channel}_task_failures(%s)", send) >= 1, hurried.story)
    everything = str(task) + worker.log + str([p.command for p in worker.family()])
    everything += str(hurried.sql("select to_jsonb(t) from queues.task_runs t")) + str(
        hurried.sql("select * from queues.error")
    )
    assert "canary" not in everything


def _bare(house: House, **payload: object) -> int:
    """An email task that no process supervises, with handlers of the user's own."""
    message = {"to": "ada@example.org", "subject": "x", "text": "y"} | payload
    return int(house.one("select queues.enqueue_system('email', %s, max_attempts => 3)", Jsonb(message)))


def _calls(house: House) -> list[tuple[Any, ...]]:
    return house.sql("select what, heard from shop.calls order by n")


@pytest.fixture
def handlers(hurried: House) -> House:
    """shop.<name>(payload) notes what it heard; the table shop.answers says what it answers, one row a call."""
    hurried.function("x", "begin return null; end")
    hurried.sql("create table shop.calls (n int generated always as identity, what text, heard jsonb)")
    hurried.sql("create table shop.answers (what text, number int, answer jsonb)")
    for name in ("before", "success", "error"):
        hurried.sql(f"create sequence shop.{name}_calls")  # a failure rolls everything else back
        hurried.sql(
            f"create function shop.{name}(payload jsonb) returns jsonb language plpgsql security definer"
            f" set search_path = pg_catalog, pg_temp as $$ declare call int := nextval('shop.{name}_calls'); begin"
            f" insert into shop.calls (what, heard) values ('{name}', payload);"
            f" return coalesce((select a.answer from shop.answers a where a.what = '{name}' and a.number = call),"
            f" '{{\"success\": true}}'); end $$"
        )
        hurried.sql(f"grant execute on function shop.{name}(jsonb) to worker_service_user")
    return hurried


def _answer(house: House, what: str, answer: dict[str, Any], times: int = 1) -> None:
    for _ in range(times):
        number = "(select count(*) + 1 from shop.answers where what = %s)"
        house.sql(
            f"insert into shop.answers (what, number, answer) values (%s, {number}, %s)", what, what, Jsonb(answer)
        )


MESSAGE = {"to": "bob@example.org", "subject": "built", "text": "by the handler"}


def test_the_whole_payload_goes_to_the_handlers_and_what_before_answers_to_the_provider(
    handlers: House, sink: Sink
) -> None:
    _answer(handlers, "before", {"success": True, "payload": MESSAGE})
    _smtp(handlers, sink)
    task = handlers.final(
        _bare(
            handlers,
            invoice=7,
            before_handler="shop.before",
            success_handler="shop.success",
            error_handler="shop.error",
        )
    )
    assert (task["status"], task["result_json"]["provider"]) == ("SUCCESSFUL", "smtp")
    assert [message["To"] for message in sink.arrived] == ["bob@example.org"]
    (before, heard), (success, told) = _calls(handlers)
    assert (before, success) == ("before", "success")
    assert (heard["invoice"], told["original_payload"]["invoice"]) == (7, 7)
    assert told["worker_payload"]["provider_message_id"] == sink.arrived[0]["Message-ID"]


def test_a_success_handler_that_fails_is_called_again_and_nothing_is_sent_again(handlers: House, sink: Sink) -> None:
    _answer(handlers, "success", {"success": False, "error": "not now"}, 2)
    _smtp(handlers, sink)
    task = handlers.final(_bare(handlers, success_handler="shop.success"))
    assert task["status"] == "SUCCESSFUL"
    assert len(sink.arrived) == 1
    assert handlers.one("select count(*) from queues.error where function_name = 'shop.success'") == 2


def test_a_success_handler_that_always_fails_ends_the_task_and_nothing_is_sent_again(
    handlers: House, sink: Sink
) -> None:
    _answer(handlers, "success", {"success": False, "error": "never"}, 99)
    _smtp(handlers, sink)
    task = handlers.final(_bare(handlers, success_handler="shop.success", error_handler="shop.error"))
    assert (task["status"], task["failure_kind"], task["attempt_count"]) == ("FAILED", "handler_failed", 1)
    assert len(sink.arrived) == 1
    assert handlers.one("select count(*) from queues.error where function_name = 'shop.success'") == 5
    assert handlers.one("select count(*) from shop.calls where what = 'error'") == 0


def test_a_process_whose_success_handler_can_not_be_called_finds_the_answer_itself(hurried: House, sink: Sink) -> None:
    hurried.sql("revoke execute on function comms.record_email_success from worker_service_user")
    _smtp(hurried, sink)
    status = _ended(hurried, _send(hurried))
    assert (status["state"], status["attempts"]) == ("succeeded", 1)
    assert status["provider_message_id"] == sink.arrived[0]["Message-ID"]
    assert len(sink.arrived) == 1
    assert hurried.one("select failure_kind from queues.task_runs where task_type = 'email'") == "handler_failed"


def test_a_before_handler_that_refuses_is_final_and_the_error_handler_hears_why(handlers: House, sink: Sink) -> None:
    _answer(handlers, "before", {"success": False, "validation_failure_message": "nobody wants it"})
    _smtp(handlers, sink)
    task = handlers.final(_bare(handlers, before_handler="shop.before", error_handler="shop.error"))
    assert (task["status"], task["failure_kind"], task["attempt_count"]) == ("FAILED", "validation", 1)
    assert sink.arrived == []
    error = _calls(handlers)[-1][1]["error"]
    assert (error["kind"], error["permanent"], error["message"]) == ("validation", True, "nobody wants it")


def test_a_before_handler_that_fails_may_do_better_the_next_time(handlers: House, sink: Sink) -> None:
    _answer(handlers, "before", {"success": False, "error": "not now"})
    _answer(handlers, "before", {"success": True, "payload": MESSAGE})
    _smtp(handlers, sink)
    task = handlers.final(_bare(handlers, before_handler="shop.before", error_handler="shop.error"))
    assert (task["status"], task["attempt_count"]) == ("SUCCESSFUL", 2)
    (heard,) = (heard for what, heard in _calls(handlers) if what == "error")
    assert heard["error"]["kind"] == "handler_failed"
    assert len(sink.arrived) == 1


def test_an_error_handler_that_fails_is_on_record_and_the_task_ends_as_it_would_have(
    handlers: House, sink: Sink
) -> None:
    sink.replies = ["550 no such user"]
    _answer(handlers, "error", {"success": False, "error": "broken too"})
    _smtp(handlers, sink)
    task = handlers.final(_bare(handlers, error_handler="shop.error"))
    assert (task["status"], task["failure_kind"], task["attempt_count"]) == ("FAILED", "provider_refused", 1)
    errors = handlers.sql("select function_name, message from queues.error order by id")
    assert errors == [(None, "provider_refused 550"), ("shop.error", "broken too")]


def test_a_bare_mail_whose_answer_was_lost_is_not_sent_again_by_smtp(handlers: House, sink: Sink) -> None:
    """Killed while the server thinks about the message: no second execution calls it."""
    sink.hold = True
    worker = _smtp(handlers, sink).ready()
    task = _bare(handlers)
    wait_until(lambda: sink.asked == 1, handlers.story)
    for child in worker.children():
        os.kill(child.pid, signal.SIGKILL)
    sink.hold = False
    row = handlers.final(task)
    assert (row["status"], row["failure_kind"]) == ("FAILED", "unknown")
    assert sink.asked == 1
