"""What is committed reaches the sinks that want it: as CloudEvents, signed, with the same id on every repeat."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from reproq import Client
from tests.outbox.office import SECRET, Office, batch, verified
from tests.outbox.receiver import Answer, Request
from tests.worker.harness import wait_until

OTHER_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDC2FVsBQIhrs="


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_an_event_is_a_signed_cloudevent_for_the_official_libraries(office: Office, mode: str) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url("/hook?from=reproq"), mode=mode)
    data = {"amount": "12.50", "who": "Zoë \U0001f600", "deep": [1, None, {"a": True}]}
    event_id = office.publish("shop.paid.v1", 'order/7 "ü" 100%', data)
    office.deliver()
    (request,) = receiver.requests
    event = verified(request)
    assert request.path == "/hook?from=reproq"
    assert (event.get_id(), event.get_type(), event.get_source()) == (event_id, "shop.paid.v1", "/reproq")
    assert (event.get_subject(), event.get_data()) == ('order/7 "ü" 100%', data)
    assert event.get_time() == office.one("select created_at from queues.outbox_event")
    assert event.get_extension("sequence") == f"{office.one('select id from queues.outbox_event'):020}"
    assert request.headers["webhook-id"] == event_id


def test_batches_are_signed_and_each_event_in_them_is_one(office: Office) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url(), mode="batched", batch_size=4)
    wanted = [office.publish(subject=f"order/{n % 2}", data={"n": n}) for n in range(10)]
    office.deliver("--concurrency", "1")
    batches = [batch(request) for request in receiver.requests]
    assert [len(events) <= 4 for events in batches] == [True] * len(batches)
    assert sorted(event.get_id() for events in batches for event in events) == sorted(wanted)
    for subject in ("order/0", "order/1"):
        seen = [event.get_data()["n"] for events in batches for event in events if event.get_subject() == subject]  # type: ignore[index, call-overload]
        assert seen == sorted(seen)


def test_one_bad_event_of_a_batch_is_found_and_the_others_arrive(office: Office) -> None:
    receiver = office.receiver(lambda request: Answer(422 if b'"bad"' in request.body else 200))
    office.sink("shop", receiver.url(), mode="batched")
    for n in range(9):
        office.publish(data="bad" if n == 5 else n)
    office.deliver()
    assert office.sql("select state, count(*) from queues.outbox_delivery group by 1 order by 1") == [
        ("delivered", 8), ("parked", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["structured", "binary", "batched"])
def test_data_arrives_digit_by_digit_or_not_at_all(office: Office, mode: str) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url(), mode=mode)
    number = "12345678901234567890.123456789012345678901234567890"
    office.sql("select queues.publish_event('a', null, %s)", number)
    office.publish("b", None, None)
    office.deliver("--concurrency", "1")
    bodies = b"".join(request.body for request in receiver.requests)
    assert number.encode() in bodies
    if mode == "binary":
        empty = next(request for request in receiver.requests if request.headers["ce-type"] == "b")
        assert empty.body == b"" and "content-type" not in empty.headers
    else:
        (event,) = (event for event in receiver.events() if event["type"] == "b")
        assert "data" not in event and "subject" not in event


def test_a_repeat_has_the_same_id_and_is_signed_anew(office: Office) -> None:
    answers = iter([Answer(drop=True), Answer(500), Answer(200)])
    receiver = office.receiver(lambda _request: next(answers))
    office.sink("shop", receiver.url())
    event_id = office.publish()
    office.deliver()
    assert [verified(request).get_id() for request in receiver.requests] == [event_id] * 3
    assert len({request.body for request in receiver.requests}) == 1
    assert office.sql("select state, attempts, last_status from queues.outbox_delivery") == [("delivered", 3, 200)]


def test_nothing_overtakes_an_event_that_the_sink_refused_for_now(office: Office) -> None:
    answers = iter([Answer(503), Answer(200), Answer(500)])
    receiver = office.receiver(lambda _request: next(answers, Answer(200)))
    office.sink("shop", receiver.url())
    for n in range(4):
        office.publish(subject="order/1", data=n)
    office.deliver()
    assert [event["data"] for event in receiver.events()] == [0, 0, 1, 1, 2, 3]


def test_what_is_rolled_back_is_never_sent(office: Office) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url())
    with pytest.raises(ZeroDivisionError), office.app.transaction():
        office.publish("shop.never")
        raise ZeroDivisionError
    with office.app.transaction():
        kept = Client.publish_event_in(office.app, "shop.kept", "order/1", [1, 2])
    with Client(office.database.app_dsn) as client:
        other = client.publish_event("shop.kept", "order/1")
    office.deliver()
    assert [(event["id"], event["type"]) for event in receiver.events()] == [(kept, "shop.kept"), (other, "shop.kept")]
    assert "data" not in receiver.events()[1]


def test_a_sink_gets_the_types_it_asked_for_from_then_on_and_others_by_replay(office: Office) -> None:
    first, second = office.receiver(), office.receiver()
    office.sink("shop", first.url(), type_prefixes=["shop.", "mail"])
    for event_type in ("shop.paid", "mailbox.full", "Shop.paid", "stock.low"):
        office.publish(event_type)
    office.sink("later", second.url(), signed=False)
    office.publish("stock.high")
    office.deliver()
    assert sorted(event["type"] for event in first.events()) == ["mailbox.full", "shop.paid"]
    assert [event["type"] for event in second.events()] == ["stock.high"]
    assert "webhook-signature" not in second.requests[0].headers
    last = "(select max(created_at) from queues.outbox_event)"
    assert office.one(f"select queues.replay_events('later', now() - interval '1 hour', {last})") == 4
    office.deliver()
    assert sorted(event["type"] for event in second.events()[1:]) == [
        "Shop.paid",
        "mailbox.full",
        "shop.paid",
        "stock.low",
    ]
    assert len({event["id"] for event in second.events()}) == 5


def test_while_a_secret_is_changed_old_and_new_verify(office: Office, tmp_path: Path) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url())
    office.publish()
    file = tmp_path / "secret"
    file.write_text(f"{OTHER_SECRET}\n{SECRET}\n")
    dispatcher = office.dispatcher(REPROQ_SINK_SECRET_SHOP="", REPROQ_SINK_SECRET_SHOP_FILE=str(file))
    (request,) = receiver.wait_for(1)
    assert verified(request, SECRET).get_id() == verified(request, OTHER_SECRET).get_id()
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "A" * 44).verify(request.body, request.headers)
    office.wait_state("delivered", 1)
    file.write_text(OTHER_SECRET)
    office.publish()
    (_, request) = receiver.wait_for(2)
    verified(request, OTHER_SECRET)
    with pytest.raises(WebhookVerificationError):
        verified(request, SECRET)
    assert dispatcher.stop() == 0


def test_a_sink_without_its_secret_gets_nothing_and_that_is_said(office: Office, tmp_path: Path) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url())
    office.publish()
    file = tmp_path / "secret"
    file.write_text("")
    dispatcher = office.dispatcher(REPROQ_SINK_SECRET_SHOP="", REPROQ_SINK_SECRET_SHOP_FILE=str(file))
    dispatcher.wait_event("sink_unusable", sink="shop")
    file.write_text("whsec_c2hvcnQ=")
    short = dispatcher.wait_event("sink_unusable", count=2)
    assert "24 to 64 octets" in short["message"] and "c2hvcnQ" not in dispatcher.log
    assert receiver.requests == []
    file.write_text(SECRET)
    receiver.wait_for(1)
    assert dispatcher.stop() == 0
    assert office.sql("select attempts from queues.outbox_delivery") == [(1,)]


def test_a_script_does_not_wait_for_a_secret(office: Office) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url())
    office.sink("open", receiver.url(), signed=False)
    office.publish()
    assert office.dispatcher("--until-empty", REPROQ_SINK_SECRET_SHOP="").status() == 1
    assert len(receiver.requests) == 1


def test_a_dispatcher_that_sleeps_is_woken_by_a_publish(office: Office) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url())
    dispatcher = office.dispatcher("--poll-interval", "5m")
    wait_until(lambda: office.sql("select from queues.sleeper"), lambda: f"a sleeping dispatcher: {office.story()}")
    office.publish()
    receiver.wait_for(1)
    assert dispatcher.stop() == 0
    assert office.sql("select from queues.sleeper") == []


def test_a_slow_sink_is_no_other_sinks_affair(office: Office) -> None:
    go = threading.Event()
    slow, quick = office.receiver(lambda _request: Answer(wait=go)), office.receiver()
    office.sink("slow", slow.url(), signed=False)
    office.sink("quick", quick.url(), signed=False)
    for n in range(30):
        office.publish(data=n)
    dispatcher = office.dispatcher()
    quick.wait_for(30)
    go.set()
    office.wait_state("delivered", 60)
    assert dispatcher.stop() == 0
    assert office.one("select count(*) from queues.outbox_event where published_at is null") == 0


def test_octets_that_no_database_stores_are_one_sinks_failure_and_no_other_sinks_affair(office: Office) -> None:
    hostile = office.receiver(lambda _request: Answer(raw=b"\0\xff \x1b[2J\r\n\r\n"))
    well = office.receiver()
    office.sink("hostile", hostile.url(), signed=False, max_attempts=1)
    office.sink("well", well.url(), signed=False)
    office.publish(subject="order/1")
    office.deliver()
    states = dict(office.sql("select sink, state from queues.outbox_delivery"))
    assert states == {"hostile": "parked", "well": "delivered"}


def test_no_secret_and_no_address_stands_in_log_errors_or_the_list_of_processes(office: Office) -> None:
    def told(_request: Request) -> Answer:
        return Answer(500, body=b"you said " + SECRET.encode())

    receiver = office.receiver(told)
    office.sink("shop", receiver.url("/token-in-path?key=token-in-query"))
    office.sink("nowhere", "http://127.0.0.1:1/token-in-path", signed=False)
    office.publish()
    dispatcher = office.dispatcher("--database-url", office.dsn, REPROQ_DATABASE_URL="")
    dispatcher.wait_event("delivery_failed", sink="shop")
    dispatcher.wait_event("delivery_failed", sink="nowhere")
    shown = dispatcher.log + json.dumps(office.sql("select last_error from queues.outbox_delivery"))
    command = Path(f"/proc/{dispatcher.pid}/cmdline").read_bytes().decode()
    assert dispatcher.stop() == 0
    for secret in (SECRET, SECRET[6:], "token-in", "pw-of-dispatch"):
        assert secret not in shown, shown
        assert secret not in command, command
