"""Resend: one email for one key, and what each failure means."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from email.utils import formatdate
from typing import Any

import pytest
import resend as sdk

from reproq.channels import AnswerLost, Provider, SendFailed, providers
from reproq.config import load
from tests.channels.fakes import FakeResend, Fault, answers, loses_the_answer

MESSAGE = {
    "to": "Ann <ann@example.org>",
    "subject": "Grüße",
    "text": "Hi.",
    "html": "<p>Hi.</p>",
    "reply_to": "help@example.org",
    "headers": {"X-Order": "7"},
}


@pytest.fixture
def fake() -> Iterator[FakeResend]:
    with FakeResend() as fake:
        yield fake
        while _opened:
            _opened.pop().close()


_opened: list[Provider] = []


def provider(fake: FakeResend, **changes: str) -> Provider:
    environ = {"REPROQ_DATABASE_URL": "postgresql://h/d"} | fake.settings() | changes
    _opened.append(providers(load({}, environ).providers.plain())["email"])
    return _opened[-1]


def failure(fake: FakeResend, *faults: Fault, **changes: str) -> SendFailed:
    fake.faults += faults
    with pytest.raises(SendFailed) as caught:
        provider(fake, **changes).send(MESSAGE, "k", 5)
    assert fake.accepted == []
    assert fake.api_key not in caught.value.message
    return caught.value


def test_a_message_is_accepted_with_all_its_fields(fake: FakeResend) -> None:
    answer = provider(fake).send(MESSAGE, "send-7", 5)
    (entry,) = fake.accepted
    assert answer == {"provider": "resend", "provider_message_id": entry["id"]}
    assert entry["key"] == "send-7"
    assert entry["message"] == {"from": "Shop <shop@example.org>", **MESSAGE}
    assert fake.requests[0].headers["User-Agent"].startswith("reproq/")


def test_the_same_key_with_the_same_message_is_one_email(fake: FakeResend) -> None:
    mine = provider(fake)
    assert mine.send(MESSAGE, "k", 5) == mine.send(MESSAGE, "k", 5)
    with pytest.raises(SendFailed, match="409 invalid_idempotent_request") as caught:
        mine.send(MESSAGE | {"text": "other"}, "k", 5)
    assert (caught.value.kind, caught.value.permanent) == ("provider_refused", True)
    assert len(fake.accepted) == 1


@pytest.mark.parametrize("ending", ["cut", "half", "hang"])
def test_a_lost_answer_is_said_and_the_same_key_gets_the_answer(fake: FakeResend, ending: str) -> None:
    fake.faults.append(loses_the_answer(ending))
    mine = provider(fake)
    with pytest.raises(AnswerLost, match="gave no whole answer"):
        mine.send(MESSAGE, "k", 0.5)
    assert mine.send(MESSAGE, "k", 5)["provider_message_id"] == fake.accepted[0]["id"]
    assert len(fake.accepted) == 1


def test_an_answer_without_an_id_is_a_lost_one(fake: FakeResend) -> None:
    fake.faults.append(Fault(accept=True, status=200, body={}))
    with pytest.raises(AnswerLost, match="without an id"):
        provider(fake).send(MESSAGE, "k", 5)


@pytest.mark.parametrize(
    ("status", "body", "kind", "permanent"),
    [
        (400, {"name": "validation_error"}, "provider_refused", True),
        (400, {"name": "invalid_idempotency_key"}, "provider_refused", True),
        (401, {"name": "restricted_api_key"}, "provider_unavailable", False),
        (403, {"name": "validation_error"}, "provider_refused", True),
        (403, b"<html>a proxy</html>", "provider_unavailable", False),
        (404, {"name": "not_found"}, "provider_unavailable", False),
        (301, b"", "provider_unavailable", False),
        (408, {"name": "timeout"}, "provider_refused", False),
        (409, {"name": "concurrent_idempotent_requests"}, "provider_refused", False),
        (409, {"name": "invalid_idempotent_request"}, "provider_refused", True),
        (422, {"name": "missing_required_field"}, "provider_refused", True),
        (422, {"message": "The to field is invalid."}, "provider_refused", True),
        (422, b"", "provider_refused", True),
        (429, {"name": "daily_quota_exceeded"}, "provider_unavailable", False),
        (500, {"name": "application_error"}, "provider_refused", False),
        (503, b"", "provider_refused", False),
    ],
)
def test_what_each_answer_means(fake: FakeResend, status: int, body: Any, kind: str, permanent: bool) -> None:
    failed = failure(fake, answers(status, body, Location="http://example.org/elsewhere"))
    assert (failed.kind, failed.permanent) == (kind, permanent)
    assert str(status) in failed.message
    assert len(fake.requests) == 1


@pytest.mark.parametrize("key", ["re_wrong_canary", "re_canary"])
def test_a_wrong_key_does_not_end_messages(fake: FakeResend, key: str) -> None:
    failed = failure(fake, RESEND_API_KEY=key)
    assert (failed.kind, failed.permanent) == ("provider_unavailable", False)
    assert "invalid_api_key" in failed.message
    assert "canary" not in failed.message


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": formatdate(2_000_000_030, usegmt=True), "Date": formatdate(2_000_000_000, usegmt=True)}, 30),
        ({"Retry-After": formatdate(1_000_000_000, usegmt=True)}, 0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "9" * 400}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait_comes_in_seconds_or_as_a_date(
    fake: FakeResend, headers: dict[str, str], wait: float | None
) -> None:
    failed = failure(fake, Fault(status=429, headers=headers))
    assert (failed.kind, failed.permanent, failed.retry_after_s) == ("provider_unavailable", False, wait)


def test_one_connection_serves_many_messages_and_is_made_anew_when_it_was_closed(fake: FakeResend) -> None:
    mine = provider(fake)
    for number in range(3):
        mine.send(MESSAGE, f"k{number}", 5)
    assert len(fake.connections) == 1
    fake.hang_up()
    mine.send(MESSAGE, "k3", 5)
    assert (len(fake.connections), len(fake.accepted)) == (2, 4)
    mine.close()


def test_a_refusal_keeps_the_connection(fake: FakeResend) -> None:
    fake.faults.append(answers(429))
    mine = provider(fake)
    with pytest.raises(SendFailed):
        mine.send(MESSAGE, "k", 5)
    mine.send(MESSAGE, "k", 5)
    assert len(fake.connections) == 1


def test_nobody_listening_is_unavailable(fake: FakeResend) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    failed = failure(fake, RESEND_API_URL=f"http://127.0.0.1:{port}")
    assert (failed.kind, failed.permanent) == ("provider_unavailable", False)


def test_a_request_that_broke_off_half_way_has_sent_nothing(fake: FakeResend) -> None:
    """The head alone is answered by a cut, while a body longer than all buffers is on its way."""
    listener = socket.create_server(("127.0.0.1", 0))

    def cut() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)

    threading.Thread(target=cut, daemon=True).start()
    mine = provider(fake, RESEND_API_URL=f"http://127.0.0.1:{listener.getsockname()[1]}")
    with listener, pytest.raises(SendFailed, match="broke off while the request was sent") as caught:
        mine.send(MESSAGE | {"text": "x" * 20_000_000}, "k", 10)
    assert (caught.value.kind, caught.value.permanent) == ("provider_unavailable", False)


def test_a_proxy_of_the_environment_sees_nothing(fake: FakeResend, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    provider(fake).send(MESSAGE, "k", 5)


def test_a_path_before_the_apis_own_is_kept(fake: FakeResend) -> None:
    failure(fake, RESEND_API_URL=f"{fake.url}/mail/v1/")
    assert fake.requests[0].path == "/mail/v1/emails"


@pytest.mark.usefixtures("trusted")
def test_over_tls_it_works_when_the_certificate_is_vouched_for(server_tls: ssl.SSLContext) -> None:
    with FakeResend(server_tls) as fake, closing(provider(fake)) as mine:
        for number in range(2):
            mine.send(MESSAGE, f"k{number}", 5)
        assert (len(fake.accepted), len(fake.connections)) == (2, 1)


def test_over_tls_a_certificate_nobody_vouches_for_gets_nothing(server_tls: ssl.SSLContext) -> None:
    with FakeResend(server_tls) as fake:
        failed = failure(fake)
        assert (failed.kind, failed.permanent) == ("provider_unavailable", False)
        assert "certificate verify failed" in failed.message


def test_resends_own_library_takes_the_fake_for_the_real_one(fake: FakeResend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "api_url", fake.url)
    monkeypatch.setattr(sdk, "api_key", fake.api_key)
    monkeypatch.setattr(sdk, "default_http_client", sdk.RequestsClient())
    message: Any = {"from": "shop@example.org", "to": "ann@example.org", "subject": "Hello", "text": "Hi."}
    sent = sdk.Emails.send(message, {"idempotency_key": "k"})
    assert sdk.Emails.send(message, {"idempotency_key": "k"})["id"] == sent["id"] == fake.accepted[0]["id"]
    assert sdk.Emails.get(sent["id"])["subject"] == "Hello"
    with pytest.raises(sdk.exceptions.ResendError, match="another body"):
        sdk.Emails.send(message | {"text": "other"}, {"idempotency_key": "k"})
    fake.faults.append(answers(429, Retry_After="3"))
    with pytest.raises(sdk.exceptions.RateLimitError):
        sdk.Emails.send(message)
    monkeypatch.setattr(sdk, "api_key", "re_wrong")
    with pytest.raises(sdk.exceptions.InvalidApiKeyError):
        sdk.Emails.send(message)
