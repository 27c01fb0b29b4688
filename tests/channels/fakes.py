"""Small Resend and Twilio on loopback, for any test: they accept what the providers' own libraries send, keep a ledger
of what they accepted, and fail on demand. `settings()` is a worker's environment.
"""

from __future__ import annotations

import base64
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit


@dataclass(frozen=True)
class Fault:
    """What happens to the next POST instead of an ordinary answer."""

    accept: bool = False  # the message goes into the ledger, whatever is answered
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: object = None
    ending: str = ""  # "cut": close without an answer; "half": half an answer; "hang": none until the fake is closed


def answers(status: int, body: object = None, **headers: str) -> Fault:
    return Fault(status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def loses_the_answer(ending: str = "cut") -> Fault:
    return Fault(accept=True, ending=ending)


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Fake:
    """The server, the faults to come, and the ledger."""

    def __init__(self, context: Any = None) -> None:
        self.faults: list[Fault] = []
        self.accepted: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self.connections: list[socket.socket] = []
        self.changed = threading.Condition()
        self._closed = threading.Event()
        self._numbers = itertools.count(1)
        fake = self

        class Handler(_Handler):
            owner = fake

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._server.daemon_threads = True
        self.url = f"{'http' if context is None else 'https'}://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self.hang_up()
        self._server.server_close()
        self._thread.join()

    def hang_up(self) -> None:
        """Close every connection, as a server does with idle ones."""
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side was quicker

    def wait_accepted(self, count: int, timeout_s: float = 30) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.accepted) >= count, timeout_s), self.accepted

    def accept(self, message: dict[str, Any]) -> None:
        with self.changed:
            self.accepted.append(message)
            self.changed.notify_all()

    def number(self) -> str:
        return f"{next(self._numbers):032x}"

    def serve(self, request: Request) -> Fault:
        """The answer: the next fault's, or the ordinary one."""
        self.requests.append(request)
        fault = self.faults.pop(0) if request.method == "POST" and self.faults else None
        if fault is not None and not fault.accept:
            return self.in_its_own_words(fault)
        status, body = self.answer(request)
        if fault is None or fault.status is None:
            return Fault(status=status, body=body, ending=fault.ending if fault else "")
        return self.in_its_own_words(fault)

    def wait_closed(self) -> None:
        self._closed.wait(60)

    def in_its_own_words(self, fault: Fault) -> Fault:
        raise NotImplementedError

    def answer(self, request: Request) -> tuple[int, object]:
        raise NotImplementedError


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: Fake

    def setup(self) -> None:
        super().setup()
        self.owner.connections.append(self.connection)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            pass  # the client went away

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return
        said = self.owner.serve(Request(self.command, self.path, dict(self.headers.items()), body))
        if said.ending == "hang":
            self.owner.wait_closed()
        if said.ending in ("cut", "hang"):
            self.close_connection = True
            return
        self._say(said)

    def _say(self, said: Fault) -> None:
        octets = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
        self.send_response_only(said.status or 200)
        ordinary = {"Content-Type": "application/json", "Date": self.date_time_string()}
        for name, value in {**ordinary, **said.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(octets)))
        self.end_headers()
        self.wfile.write(octets if said.ending != "half" else octets[: len(octets) // 2])
        self.close_connection = self.close_connection or said.ending == "half"

    do_GET = do_POST = _serve

    def log_message(self, *_: object) -> None:
        pass


class FakeResend(Fake):
    api_key = "re_fake_0123456789"
    name = "resend"

    def __init__(self, context: Any = None) -> None:
        self._by_key: dict[str, tuple[object, str]] = {}
        super().__init__(context)

    def settings(self) -> dict[str, str]:
        return {
            "REPROQ_EMAIL_PROVIDER": "resend",
            "RESEND_API_KEY": self.api_key,
            "RESEND_API_URL": self.url,
            "REPROQ_EMAIL_FROM": "Shop <shop@example.org>",
        }

    def answer(self, request: Request) -> tuple[int, object]:
        given = request.headers.get("Authorization", "")
        if not given:
            return _resend_error(401, "missing_api_key", "no key")
        if given != f"Bearer {self.api_key}":
            return _resend_error(403, "invalid_api_key", "API key is invalid")
        if request.method == "GET":
            found = [entry for entry in self.accepted if request.path == f"/emails/{entry['id']}"]
            return (200, found[0]["message"] | {"id": found[0]["id"]}) if found else _resend_error(404, "not_found", "")
        if request.path != "/emails":
            return _resend_error(404, "not_found", "no such path")
        return self._send(json.loads(request.body), request.headers.get("Idempotency-Key"))

    def _send(self, message: dict[str, Any], key: str | None) -> tuple[int, object]:
        if missing := [name for name in ("from", "to", "subject") if not message.get(name)]:
            return _resend_error(422, "missing_required_field", f"missing {missing[0]}")
        if not message.get("html") and not message.get("text"):
            return _resend_error(422, "validation_error", "html or text is needed")
        with self.changed:
            return self._send_once(message, key)

    def _send_once(self, message: dict[str, Any], key: str | None) -> tuple[int, object]:
        if key is not None and key in self._by_key:
            sent, identity = self._by_key[key]
            if sent == message:
                return 200, {"id": identity}
            return _resend_error(409, "invalid_idempotent_request", "the key was used with another body")
        identity = self.number()
        if key is not None:
            self._by_key[key] = message, identity
        self.accept({"id": identity, "key": key, "message": message})
        return 200, {"id": identity}

    def in_its_own_words(self, fault: Fault) -> Fault:
        if fault.body is not None:
            return fault
        name = {429: "rate_limit_exceeded", 409: "concurrent_idempotent_requests"}.get(
            fault.status or 0, "application_error" if (fault.status or 0) >= 500 else "validation_error"
        )
        status, body = _resend_error(fault.status or 500, name, "as the test asked for")
        return Fault(fault.accept, status, fault.headers, body, fault.ending)


def _resend_error(status: int, name: str, message: str) -> tuple[int, object]:
    return status, {"statusCode": status, "name": name, "message": message}


class FakeTwilio(Fake):
    account_sid = "AC" + "5e" * 16
    auth_token = "fake-token-0123456789"
    name = "twilio"

    def __init__(self, context: Any = None, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        super().__init__(context)

    def settings(self) -> dict[str, str]:
        return {
            "REPROQ_SMS_PROVIDER": "twilio",
            "TWILIO_ACCOUNT_SID": self.account_sid,
            "TWILIO_AUTH_TOKEN": self.auth_token,
            "TWILIO_API_URL": self.url,
            "TWILIO_FROM": "+15550006789",
        }

    @property
    def _folder(self) -> str:
        return f"/2010-04-01/Accounts/{self.account_sid}"

    def answer(self, request: Request) -> tuple[int, object]:
        login = base64.b64encode(f"{self.account_sid}:{self.auth_token}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {login}":
            return _twilio_error(401, 20003, "Authenticate")
        parts = urlsplit(request.path)
        if parts.path == f"{self._folder}/Messages.json":
            fields = {name: values[0] for name, values in parse_qs(request.body.decode() or parts.query).items()}
            return self._send(fields) if request.method == "POST" else self._list(fields)
        for entry in self.accepted:
            if parts.path == f"{self._folder}/Messages/{entry['sid']}.json":
                return 200, entry
        return _twilio_error(404, 20404, "not found")

    def _send(self, form: dict[str, str]) -> tuple[int, object]:
        for name, code in (("To", 21604), ("Body", 21602)):
            if not form.get(name):
                return _twilio_error(400, code, f"a {name} is needed")
        if not form.get("From") and not form.get("MessagingServiceSid"):
            return _twilio_error(400, 21603, "a From is needed")
        if not form["To"].removeprefix("+").isdigit():
            return _twilio_error(400, 21211, "To isn't a phone number")
        message = self.message(form["To"], form.get("From"), form["Body"], form.get("MessagingServiceSid"))
        self.accept(message)
        return 201, message

    def message(
        self, to: str, sender: str | None, body: str, service: str | None = None, direction: str = "outbound-api"
    ) -> dict[str, Any]:
        sid, now = f"SM{self.number()}", formatdate(self.clock())
        nothing = ("price", "error_code", "error_message", "date_sent")
        return dict.fromkeys(nothing) | {
            "sid": sid, "account_sid": self.account_sid, "api_version": "2010-04-01", "to": to, "from": sender,
            "body": body, "messaging_service_sid": service, "status": "queued", "direction": direction,
            "num_segments": "1", "num_media": "0", "price_unit": "USD", "date_created": now, "date_updated": now,
            "uri": f"{self._folder}/Messages/{sid}.json", "subresource_uris": {},
        }  # fmt: skip

    def _list(self, query: dict[str, str]) -> tuple[int, object]:
        wanted = {"to": query.get("To"), "from": query.get("From")}
        found = [
            entry
            for entry in reversed(self.accepted)
            if all(value is None or entry[name] == value for name, value in wanted.items())
        ]
        size, page = int(query.get("PageSize", 50)), int(query.get("Page", 0))
        here = found[page * size : (page + 1) * size]
        following = urlencode(query | {"Page": str(page + 1), "PageToken": "PA" + here[-1]["sid"]}) if here else ""
        more = len(found) > (page + 1) * size
        path = f"{self._folder}/Messages.json"
        return 200, {
            "messages": here, "page": page, "page_size": size, "start": page * size, "end": page * size + len(here),
            "uri": path, "first_page_uri": f"{path}?Page=0", "previous_page_uri": None,
            "next_page_uri": f"{path}?{following}" if more else None,
        }  # fmt: skip

    def in_its_own_words(self, fault: Fault) -> Fault:
        if fault.body is not None:
            return fault
        code = {429: 20429, 503: 20503, 401: 20003}.get(fault.status or 0, 20500)
        status, body = _twilio_error(fault.status or 500, code, "as the test asked for")
        return Fault(fault.accept, status, fault.headers, body, fault.ending)


def _twilio_error(status: int, code: int, message: str) -> tuple[int, object]:
    more = f"https://www.twilio.com/docs/errors/{code}"
    return status, {"status": status, "code": code, "message": message, "more_info": more}
