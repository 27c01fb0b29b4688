"""A real SMTP server: TLS, login, and what arrives."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword

from reproq.channels import Provider, SendFailed, providers

MESSAGE = {"to": "Ann <ann@example.org>", "from": "Shop <shop@example.org>", "subject": "Hello", "text": "Hi."}
Start = Callable[..., "Server"]


class Server(Controller):
    """Keeps what it takes; knows one user."""

    def __init__(self, tls: str, context: ssl.SSLContext, **options: Any) -> None:
        self.envelopes: list[Envelope] = []
        self.sessions: set[int] = set()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options |= {"tls_context": context, "require_starttls": True} if tls == "starttls" else {}
        super().__init__(
            self,
            hostname="127.0.0.1",
            port=port,
            ssl_context=context if tls == "implicit" else None,
            authenticator=self._knows,
            server_hostname="localhost",
            **options,
        )

    def _knows(self, server: Any, session: Any, envelope: Any, mechanism: str, login: LoginPassword) -> AuthResult:
        return AuthResult(success=login == LoginPassword("änn".encode(), "pä ss".encode()), handled=False)

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:
        self.sessions.add(id(session))
        self.envelopes.append(envelope)
        return "250 taken"

    @property
    def messages(self) -> list[EmailMessage]:
        found = [message_from_bytes(content_of(entry), policy=policy.default) for entry in self.envelopes]
        return [message for message in found if isinstance(message, EmailMessage)]


def content_of(envelope: Envelope) -> bytes:
    assert isinstance(envelope.content, bytes)
    return envelope.content


@pytest.fixture
def start(server_tls: ssl.SSLContext) -> Iterator[Start]:
    servers: list[Server] = []

    def start(tls: str = "none", **options: Any) -> Server:
        servers.append(Server(tls, server_tls, **options))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def smtp(server: Server, tls: str, **more: Any) -> Provider:
    given = {"host": "localhost", "port": server.port, "tls": tls, "user": "", "password": ""} | more
    return providers({"email_provider": "smtp", "smtp": given, "email_from": "default@example.org"})["email"]


def received(start: Start, message: dict[str, Any], key: str = "send-1") -> EmailMessage:
    server = start("none")
    provider = smtp(server, "none")
    provider.send(message, key, 10)
    provider.close()
    return server.messages[0]


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("tls", ["starttls", "implicit"])
def test_a_message_goes_over_tls_with_a_login_and_one_connection_serves_the_next(start: Start, tls: str) -> None:
    server = start(tls, auth_required=tls == "starttls", auth_require_tls=tls == "starttls")
    provider = smtp(server, tls, user="änn", password="pä ss")
    assert provider.send(MESSAGE, "send-1", 10)["provider_message_id"] == "<send-1@example.org>"
    provider.send(MESSAGE, "send-2", 10)
    provider.close()
    assert [message["Message-ID"] for message in server.messages] == ["<send-1@example.org>", "<send-2@example.org>"]
    assert len(server.sessions) == 1
    assert (server.envelopes[0].mail_from, server.envelopes[0].rcpt_tos) == ("shop@example.org", ["ann@example.org"])


@pytest.mark.usefixtures("trusted")
def test_a_wrong_password_does_not_end_messages(start: Start) -> None:
    with pytest.raises(SendFailed, match="refused the login: 535") as caught:
        smtp(start("starttls"), "starttls", user="änn", password="canary").send(MESSAGE, "k", 10)
    assert (caught.value.kind, caught.value.permanent) == ("provider_unavailable", False)


@pytest.mark.parametrize("tls", ["starttls", "implicit"])
def test_a_certificate_nobody_vouches_for_gets_no_message(start: Start, tls: str) -> None:
    server = start(tls)
    with pytest.raises(SendFailed, match="certificate verify failed") as caught:
        smtp(server, tls).send(MESSAGE, "k", 10)
    assert (caught.value.kind, caught.value.permanent) == ("provider_unavailable", False)
    assert server.envelopes == []


@pytest.mark.usefixtures("trusted")
def test_a_certificate_for_another_name_gets_no_message(start: Start) -> None:
    with pytest.raises(SendFailed, match="certificate verify failed"):
        smtp(start("implicit"), "implicit", host="127.0.0.1").send(MESSAGE, "k", 10)


def test_text_and_html_arrive_as_alternatives_with_every_letter(start: Start) -> None:
    message: dict[str, Any] = {
        "to": '"Ånn, the Üser" <ann@example.org>',
        "from": "Käse & Brot <shop@straße.example>",
        "reply_to": "help@example.org",
        "subject": "Grüße 👩‍🚀 " + "sehr lang " * 30,
        "text": "Höflich.\n.\nFrom here\n" + "long " * 500,
        "html": "<p>Höflich</p>",
        "headers": {"List-Unsubscribe": f"<https://example.org/{'u' * 300}>", "X-Note": "ünicode", "X-Empty": ""},
    }
    got = received(start, message, "a/b ü")
    assert got["To"].addresses[0].display_name == "Ånn, the Üser"
    assert got["From"].addresses[0].display_name == "Käse & Brot"
    assert got["From"].addresses[0].addr_spec == "shop@xn--strae-oqa.example"
    assert (got["Subject"], got["X-Note"]) == (message["subject"].strip(), "ünicode")
    assert got["List-Unsubscribe"] == message["headers"]["List-Unsubscribe"]
    assert (got["Reply-To"], got["X-Empty"]) == ("help@example.org", "")
    assert got["Message-ID"] == "<a%2Fb%20%C3%BC@xn--strae-oqa.example>"
    assert got["Date"].datetime is not None
    assert got.get_content_type() == "multipart/alternative"
    text, html = got.iter_parts()
    assert isinstance(text, EmailMessage)
    assert isinstance(html, EmailMessage)
    assert text.get_content().replace("\r\n", "\n") == f"{message['text']}\n"
    assert html.get_content().strip() == "<p>Höflich</p>"
    assert html.get_content_type() == "text/html"


@pytest.mark.parametrize(("field", "kind"), [("text", "text/plain"), ("html", "text/html")])
def test_a_message_with_one_body_has_one_part(start: Start, field: str, kind: str) -> None:
    got = received(start, {"to": "ann@example.org", field: "only"})
    assert (got.get_content_type(), got.get_content().strip()) == (kind, "only")
    assert (got["From"], got["Subject"]) == ("default@example.org", "")


def test_an_address_with_other_letters_goes_where_the_server_takes_it(start: Start) -> None:
    server = start("none", enable_SMTPUTF8=True)
    provider = smtp(server, "none")
    provider.send(MESSAGE | {"to": "änn@straße.example"}, "k", 10)
    provider.send(MESSAGE, "k2", 10)
    provider.close()
    assert server.envelopes[0].rcpt_tos == ["änn@xn--strae-oqa.example"]
    assert "SMTPUTF8" in server.envelopes[0].mail_options
    assert "SMTPUTF8" not in server.envelopes[1].mail_options
    assert b"To: \xc3\xa4nn@xn--strae-oqa.example\r\n" in content_of(server.envelopes[0])
