"""What a failure of each step of SMTP means: only the end of the data leaves it open whether the message was taken."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from reproq.channels import AnswerLost, Provider, SendFailed, providers
from tests.channels.scripted import CUT, HANG, Action, ScriptedSmtp

MESSAGE = {"to": "ann@example.org", "from": "shop@example.org", "subject": "Hello", "text": "Hi.\n.\n..\n"}
BEFORE_THE_END = ["MAIL", "RCPT", "DATA"]


def smtp(port: int, **server: Any) -> Provider:
    given = {"host": "127.0.0.1", "port": port, "tls": "none", "user": "", "password": ""} | server
    return providers({"email_provider": "smtp", "smtp": given})["email"]


def sent(server: ScriptedSmtp, timeout_s: float = 5, text: str = MESSAGE["text"], **given: Any) -> dict[str, Any]:
    provider = smtp(server.port, **given)
    try:
        return provider.send(MESSAGE | {"text": text}, "key-1", timeout_s)
    finally:
        provider.close()


def failure(script: Mapping[str, Action], timeout_s: float = 5, **given: Any) -> SendFailed:
    with ScriptedSmtp(**script) as server, pytest.raises(SendFailed) as caught:
        sent(server, timeout_s, **given)
    assert "\n" not in caught.value.message
    return caught.value


def test_a_message_arrives_as_it_was_with_dots_at_the_start_of_lines() -> None:
    with ScriptedSmtp() as server:
        assert sent(server) == {"provider": "smtp", "provider_message_id": "<key-1@example.org>"}
        assert server.messages[0].endswith(b"\r\n\r\nHi.\r\n..\r\n...\r\n")
        assert [command.split()[0].upper() for command in server.commands] == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
        assert server.commands[1].startswith("MAIL FROM:<shop@example.org> SIZE=")


@pytest.mark.parametrize("step", ["greeting", "EHLO", *BEFORE_THE_END, "eod"])
def test_a_four_hundred_at_any_step_may_be_tried_again(step: str) -> None:
    more: dict[str, Action] = {"HELO": b"451 later\r\n"} if step == "EHLO" else {}
    failed = failure({step: b"451 4.7.1 later please\r\n", **more})
    assert (failed.kind, failed.permanent) == ("provider_refused", False)
    assert "later" in failed.message


@pytest.mark.parametrize("step", ["greeting", *BEFORE_THE_END, "eod"])
def test_a_five_hundred_at_any_step_is_final(step: str) -> None:
    failed = failure({step: b"550-5.1.1 no such\r\n550 5.1.1 user\r\n"})
    assert (failed.kind, failed.permanent) == ("provider_refused", True)
    assert "no such 5.1.1 user" in failed.message


@pytest.mark.parametrize("step", ["greeting", *BEFORE_THE_END, "eod"])
def test_a_server_that_goes_away_politely_was_not_available(step: str) -> None:
    failed = failure({step: b"421 closing\r\n"})
    assert (failed.kind, failed.permanent) == ("provider_unavailable", False)


@pytest.mark.parametrize("reply", [b"530 5.7.0 must issue STARTTLS\r\n", b"535 5.7.8 who are you\r\n"])
def test_a_server_that_wants_another_login_does_not_end_messages(reply: bytes) -> None:
    failed = failure({"MAIL": reply})
    assert (failed.kind, failed.permanent) == ("provider_unavailable", False)


@pytest.mark.parametrize("step", ["EHLO", *BEFORE_THE_END, "data"])
def test_a_cut_before_the_end_of_the_data_has_sent_nothing(step: str) -> None:
    longer_than_the_buffers_between = "x" * 70 + "\n"
    with ScriptedSmtp(**{step: CUT}) as server:
        with pytest.raises(SendFailed) as caught:
            sent(server, text=longer_than_the_buffers_between * (200_000 if step == "data" else 1))
        assert server.messages == []
    assert (caught.value.kind, caught.value.permanent) == ("provider_refused", False)


@pytest.mark.parametrize("action", [CUT, HANG])
def test_a_server_that_does_not_greet_was_never_reached(action: str) -> None:
    failed = failure({"greeting": action}, 0.3)
    assert (failed.kind, failed.permanent) == ("provider_unavailable", False)


@pytest.mark.parametrize("step", ["EHLO", *BEFORE_THE_END])
def test_silence_before_the_end_of_the_data_ends_in_time_and_has_sent_nothing(step: str) -> None:
    began = time.monotonic()
    failed = failure({step: HANG}, 0.3)
    assert (failed.kind, failed.permanent) == ("provider_refused", False)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("ending", [CUT, HANG, b"what?\r\n", b"250-half a reply\r\n", b"354 go on\r\n", b"\r\n"])
def test_after_the_end_of_the_data_a_missing_answer_is_lost(ending: Action) -> None:
    with ScriptedSmtp(eod=ending) as server:
        with pytest.raises(AnswerLost) as caught:
            sent(server, 0.5)
        assert len(server.messages) == 1
    assert "\n" not in caught.value.message


def test_a_server_that_answers_octet_by_octet_does_not_stretch_the_time() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    provider = smtp(listener.getsockname()[1])
    began = time.monotonic()
    with listener, pytest.raises(SendFailed, match="didn't greet"):

        def dribble() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    while True:
                        connection.sendall(b"2")
                        done.wait(0.05)
                except OSError:
                    pass  # the client gave up

        done = threading.Event()
        threading.Thread(target=dribble, daemon=True).start()
        provider.send(MESSAGE, "k", 0.5)
    assert time.monotonic() - began < 3


def test_garbage_before_the_end_of_the_data_has_sent_nothing() -> None:
    failed = failure({"RCPT": b"\xff\xfe garbage\r\n"})
    assert (failed.kind, failed.permanent) == ("provider_refused", False)


def test_nobody_listening_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(SendFailed) as caught:
        smtp(port).send(MESSAGE, "k", 2)
    assert (caught.value.kind, caught.value.permanent) == ("provider_unavailable", False)
    with pytest.raises(SendFailed) as caught:
        smtp(port, host="no-such-host.invalid").send(MESSAGE, "k", 2)
    assert caught.value.kind == "provider_unavailable"


def test_one_connection_serves_many_messages() -> None:
    with ScriptedSmtp() as server:
        provider = smtp(server.port)
        for number in range(3):
            provider.send(MESSAGE, f"key-{number}", 5)
        provider.close()
        assert (server.connections, len(server.messages)) == (1, 3)


def test_a_connection_that_the_server_closed_while_idle_is_made_anew() -> None:
    with ScriptedSmtp() as server:
        provider = smtp(server.port)
        provider.send(MESSAGE, "key-1", 5)
        server.hang_up()
        provider.send(MESSAGE, "key-2", 5)
        provider.close()
        assert (server.connections, len(server.messages)) == (2, 2)


def test_after_a_failure_the_next_message_gets_a_connection_of_its_own() -> None:
    with ScriptedSmtp(RCPT=b"550 no\r\n") as server:
        provider = smtp(server.port)
        with pytest.raises(SendFailed):
            provider.send(MESSAGE, "key-1", 5)
        server.script["RCPT"] = b"250 fine\r\n"
        provider.send(MESSAGE, "key-2", 5)
        provider.close()
        assert (server.connections, len(server.messages)) == (2, 1)


def test_no_login_is_sent_to_a_server_without_starttls() -> None:
    with ScriptedSmtp(EHLO=b"250-scripted\r\n250 AUTH PLAIN\r\n") as server:
        with pytest.raises(SendFailed, match=r"offers no STARTTLS; if that is meant, write \?tls=none") as caught:
            sent(server, tls="starttls", user="ann", password="canary")
        assert [command.split()[0] for command in server.commands] == ["ehlo"]
    assert caught.value.kind == "provider_unavailable"


@pytest.mark.parametrize("offered", [b"PLAIN LOGIN", b"LOGIN"])
def test_a_refused_login_does_not_end_messages_and_its_words_hold_no_password(offered: bytes) -> None:
    with ScriptedSmtp(EHLO=b"250-scripted\r\n250 AUTH " + offered + b"\r\n") as server:
        login = b"535 5.7.8 no: canary-pw Y2FuYXJ5LXB3 AGFubgBjYW5hcnktcHc=\r\n"
        server.script |= {"AUTH": login if offered != b"LOGIN" else b"334 VXNlcm5hbWU6\r\n"}
        server.script |= {"YW5U": login, "YW5O": b"334 UGFzc3dvcmQ6\r\n", "Y2FUYXJ5LXB3": login, "YW5U".upper(): login}
        with pytest.raises(SendFailed, match="refused the login") as caught:
            sent(server, user="ann", password="canary-pw")
    assert (caught.value.kind, caught.value.permanent) == ("provider_unavailable", False)
    assert "canary" not in caught.value.message
    assert "Y2FuYXJ5" not in caught.value.message


def test_a_login_nobody_asked_for_is_an_error_of_the_settings() -> None:
    assert "neither AUTH PLAIN nor AUTH LOGIN" in failure({}, user="ann", password="pw").message


def test_an_address_the_server_cannot_carry_is_final() -> None:
    with ScriptedSmtp() as server, pytest.raises(SendFailed, match="non-ASCII letters") as caught:
        smtp(server.port).send(MESSAGE | {"to": "änn@example.org"}, "k", 5)
    assert (caught.value.kind, caught.value.permanent) == ("provider_refused", True)
