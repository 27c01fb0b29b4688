"""Twilio: no key makes a second SMS the first one, so a lost answer is looked up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twilio.base.exceptions import TwilioRestException
from twilio.http.http_client import TwilioHttpClient
from twilio.rest import Client

from reproq.channels import AnswerLost, Provider, SendFailed, providers
from reproq.config import load
from tests.channels.fakes import FakeTwilio, Fault, answers, loses_the_answer

MESSAGE = {"to": "+15551234567", "body": "Your code is 4711 ✓"}
SERVICE = "MG" + "0b" * 16
NOW = 2_000_000_000.0


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fake(clock: Clock) -> Iterator[FakeTwilio]:
    with FakeTwilio(clock=clock) as fake:
        yield fake
        while _opened:
            _opened.pop().close()


_opened: list[Provider] = []


def provider(fake: FakeTwilio, **changes: str) -> Provider:
    environ = {"REPROQ_DATABASE_URL": "postgresql://h/d"} | fake.settings() | changes
    _opened.append(providers(load({}, environ).providers.plain())["sms"])
    return _opened[-1]


def test_an_sms_is_accepted(fake: FakeTwilio) -> None:
    answer = provider(fake).send(MESSAGE, "k", 5)
    (entry,) = fake.accepted
    assert answer == {"provider": "twilio", "provider_message_id": entry["sid"]}
    assert (entry["to"], entry["from"], entry["body"]) == (MESSAGE["to"], "+15550006789", MESSAGE["body"])


def test_the_messages_own_sender_wins_and_may_be_a_messaging_service(fake: FakeTwilio) -> None:
    provider(fake).send(MESSAGE | {"from": "Shop"}, "k", 5)
    provider(fake, TWILIO_FROM=SERVICE).send(MESSAGE, "k", 5)
    assert [(entry["from"], entry["messaging_service_sid"]) for entry in fake.accepted] == [
        ("Shop", None),
        (None, SERVICE),
    ]


@pytest.mark.parametrize(
    ("status", "body", "kind", "permanent"),
    [
        (400, {"code": 21211}, "provider_refused", True),
        (400, b"what?", "provider_unavailable", False),
        (401, {"code": 20003}, "provider_unavailable", False),
        (403, {"code": 20005}, "provider_unavailable", False),
        (403, {"code": 21408}, "provider_refused", True),
        (404, {"code": 20404}, "provider_unavailable", False),
        (302, b"", "provider_unavailable", False),
        (429, {"code": 20429}, "provider_unavailable", False),
        (503, {"code": 20503}, "provider_refused", False),
    ],
)
def test_what_each_answer_means(fake: FakeTwilio, status: int, body: Any, kind: str, permanent: bool) -> None:
    fake.faults.append(answers(status, body, Retry_After="9"))
    with pytest.raises(SendFailed) as caught:
        provider(fake).send(MESSAGE, "k", 5)
    assert (caught.value.kind, caught.value.permanent) == (kind, permanent)
    if isinstance(body, dict):
        assert f"{status} code {body['code']}" in caught.value.message
    waits = status in (401, 429, 503) or body in ({"code": 20005}, {"code": 20404})
    assert caught.value.retry_after_s == (9 if waits else None)
    assert fake.auth_token not in caught.value.message
    assert fake.accepted == []


@pytest.mark.parametrize(
    "fault",
    [
        loses_the_answer(),
        loses_the_answer("half"),
        loses_the_answer("hang"),
        Fault(accept=True, status=500),
        Fault(accept=True, status=502, body=b"<html>bad gateway</html>"),
        Fault(accept=True, status=201, body={}),
    ],
)
def test_an_answer_that_leaves_it_open_is_lost_and_the_look_finds_the_message(fake: FakeTwilio, fault: Fault) -> None:
    fake.faults.append(fault)
    mine = provider(fake)
    with pytest.raises(AnswerLost):
        mine.send(MESSAGE, "k", 0.5)
    (entry,) = fake.accepted
    assert mine.find(MESSAGE, NOW, 5) == {"provider": "twilio", "provider_message_id": entry["sid"]}


def test_a_wrong_token_does_not_end_messages(fake: FakeTwilio) -> None:
    with pytest.raises(SendFailed) as caught:
        provider(fake, TWILIO_AUTH_TOKEN="canary-token").send(MESSAGE, "k", 5)
    assert (caught.value.kind, caught.value.permanent) == ("provider_unavailable", False)
    assert "canary" not in caught.value.message


def test_a_look_finds_only_that_message(fake: FakeTwilio, clock: Clock) -> None:
    mine = provider(fake)
    clock.now = NOW - 60
    fake.accept(fake.message(MESSAGE["to"], "+15550006789", MESSAGE["body"]))  # the same, but before
    clock.now = NOW + 1
    fake.accept(fake.message(MESSAGE["to"], "+15550006789", "another body"))
    fake.accept(fake.message("+15559999999", "+15550006789", MESSAGE["body"]))
    fake.accept(fake.message(MESSAGE["to"], "Other", MESSAGE["body"]))
    fake.accept(fake.message(MESSAGE["to"], "+15550006789", MESSAGE["body"], direction="inbound"))
    assert mine.find(MESSAGE, NOW, 5) is None
    fake.accept(fake.message(MESSAGE["to"], "+15550006789", MESSAGE["body"]))
    clock.now = NOW + 90
    fake.accept(fake.message(MESSAGE["to"], "+15550006789", MESSAGE["body"]))
    assert mine.find(MESSAGE, NOW, 5) == {"provider": "twilio", "provider_message_id": fake.accepted[-2]["sid"]}


def test_a_look_follows_pages_as_far_as_the_time_of_the_send(fake: FakeTwilio, clock: Clock) -> None:
    clock.now = NOW - 3600
    for _ in range(400):
        fake.accept(fake.message(MESSAGE["to"], "+15550006789", "old"))
    clock.now = NOW
    fake.accept(fake.message(MESSAGE["to"], "+15550006789", MESSAGE["body"]))
    wanted = fake.accepted[-1]["sid"]
    for _ in range(250):
        fake.accept(fake.message(MESSAGE["to"], "+15550006789", "new"))
    found = provider(fake).find(MESSAGE, NOW, 5)
    assert found == {"provider": "twilio", "provider_message_id": wanted}
    assert len(fake.requests) == 4  # 250 new ones, the wanted among old ones, one page of old ones to see the end


def test_a_look_by_messaging_service_and_for_a_trial_account(fake: FakeTwilio) -> None:
    body = "Sent from your Twilio trial account - " + MESSAGE["body"]
    fake.accept(fake.message(MESSAGE["to"], "+1555000", body, "MG" + "0c" * 16))
    mine = provider(fake, TWILIO_FROM=SERVICE)
    assert mine.find(MESSAGE, NOW, 5) is None
    fake.accept(fake.message(MESSAGE["to"], "+1555000", body, SERVICE))
    assert mine.find(MESSAGE, NOW, 5) is not None


def test_a_look_that_gets_no_list_is_tried_again(fake: FakeTwilio) -> None:
    mine = provider(fake, TWILIO_AUTH_TOKEN="wrong")
    with pytest.raises(SendFailed) as caught:
        mine.find(MESSAGE, NOW, 5)
    assert (caught.value.kind, caught.value.permanent) == ("provider_unavailable", False)


@pytest.mark.parametrize(
    "link", ["https://evil.example/next?page=2", "//evil.example/x", "/a b", "http://[", "/\r\nX: y"]
)
def test_a_link_in_an_answer_leads_nowhere_else(fake: FakeTwilio, monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    entry = fake.message(MESSAGE["to"], "+15550006789", "other")
    monkeypatch.setattr(fake, "_list", lambda query: (200, {"messages": [entry], "next_page_uri": link}))
    with pytest.raises(SendFailed) as caught:
        provider(fake).find(MESSAGE, NOW, 5)
    assert caught.value.kind == "provider_unavailable"
    assert all(request.path.startswith("/") for request in fake.requests)


def test_twilios_own_library_takes_the_fake_for_the_real_one(fake: FakeTwilio) -> None:
    http = TwilioHttpClient()
    straight = http.request
    http.request = lambda method, url, *args, **kwargs: straight(
        method, url.replace("https://api.twilio.com", fake.url), *args, **kwargs
    )
    client = Client(fake.account_sid, fake.auth_token, http_client=http)
    sent = client.messages.create(to=MESSAGE["to"], from_="+15550006789", body=MESSAGE["body"])
    assert (sent.sid, sent.status, sent.date_created.timestamp()) == (fake.accepted[0]["sid"], "queued", NOW)
    assert client.messages(sent.sid).fetch().body == MESSAGE["body"]
    for _ in range(30):
        client.messages.create(to=MESSAGE["to"], from_="+15550006789", body="more")
    assert len(client.messages.list(to=MESSAGE["to"], page_size=10)) == 31
    with pytest.raises(TwilioRestException) as caught:
        client.messages.create(to="ann", from_="+15550006789", body="x")
    assert (caught.value.status, caught.value.code) == (400, 21211)
    fake.faults.append(answers(429))
    with pytest.raises(TwilioRestException) as caught:
        client.messages.create(to=MESSAGE["to"], from_="+15550006789", body="x")
    assert caught.value.status == 429
    assert http.session is not None
    http.session.close()
