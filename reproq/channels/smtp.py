"""Email by SMTP.

Up to the end of the data nothing was accepted, whatever happens. From there to the server's reply nobody knows: by
RFC 5321 it is the server's message as soon as the data has ended. smtplib's own data() doesn't tell the two apart, so
the steps are made here; from smtplib come greeting, capabilities and replies.
"""

from __future__ import annotations

import base64
import contextlib
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, cast

from reproq.channels.contract import AnswerLost, Provider, one_line, refused, unavailable
from reproq.channels.line import Line, dial
from reproq.channels.messages import Email, read_email
from reproq.channels.mime import message_id, rendered

_DOT = re.compile(rb"^\.", re.MULTILINE)
_SETTINGS = (421, 530, 534, 535, 538)  # it goes away, or minds our login or the lack of TLS: not the message's fault
_IDLE_S = 30.0
_CHECK_S = 3.0
_UNREADABLE = -1  # smtplib's code for what isn't a reply


class Smtp(Provider):
    name = "smtp"
    resolves_by = "park"

    def __init__(self, server: Mapping[str, Any], sender: str | None) -> None:
        self._host, self._port, self._tls = str(server["host"]), int(server["port"]), str(server["tls"])
        self._user, self._password = str(server.get("user") or ""), str(server.get("password") or "")
        self.sender = sender
        self._session: smtplib.SMTP | None = None
        self._used_at = 0.0
        self._context: ssl.SSLContext | None = None

    def send(self, message: Mapping[str, Any], key: str, timeout_s: float) -> dict[str, Any]:
        email = read_email(message, self.sender)
        text = rendered(email, key)
        ends = time.monotonic() + timeout_s
        session, self._session = self._ready(ends), None
        try:
            self._deliver(session, email, text)
        except BaseException:
            session.close()
            raise
        self._session, self._used_at = session, time.monotonic()
        return {"provider": self.name, "provider_message_id": message_id(email, key)}

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(OSError, smtplib.SMTPException):  # it may be gone already
                _line_of(session).ends = time.monotonic() + 1
                session.docmd("QUIT")
            session.close()

    def _ready(self, ends: float) -> smtplib.SMTP:
        session, self._session = self._session, None
        if session is not None:
            if self._still_there(session, ends):
                _line_of(session).ends = ends
                return session
            session.close()
        return self._opened(ends)

    def _still_there(self, session: smtplib.SMTP, ends: float) -> bool:
        now = time.monotonic()
        if now - self._used_at > _IDLE_S:
            return False
        try:
            # A dead line says nothing, and may not eat the message's time.
            _line_of(session).ends = now + min(_CHECK_S, (ends - now) / 2)
            return session.docmd("RSET")[0] == 250
        except (OSError, smtplib.SMTPException):
            return False

    def _opened(self, ends: float) -> smtplib.SMTP:
        line = self._dialled(ends)
        session = smtplib.SMTP(local_hostname=_own_name(line.sock))
        session.sock = cast(socket.socket, line)
        try:
            self._greet(session)
            if self._tls == "starttls":
                self._start_tls(session)
            if self._user:
                self._log_in(session)
        except BaseException:
            session.close()
            raise
        return session

    def _dialled(self, ends: float) -> Line:
        line = None
        try:
            line = dial(self._host, self._port, ends)
            if self._tls == "implicit":
                line.secure(self._tls_context(), self._host)
        except OSError as problem:
            if line is not None:
                line.close()
            raise unavailable(self._said("can't be reached", problem)) from None
        return line

    def _greet(self, session: smtplib.SMTP) -> None:
        try:
            code, text = session.getreply()
        except (OSError, smtplib.SMTPException) as problem:
            raise unavailable(self._said("didn't greet", problem)) from None
        self._judge("its greeting", code, text)
        self._introduce(session)

    def _introduce(self, session: smtplib.SMTP) -> None:
        with _Step(self, "EHLO"):
            code, text = session.ehlo()
            if not 200 <= code <= 299:
                code, text = session.helo()
        self._judge("EHLO", code, text)

    def _start_tls(self, session: smtplib.SMTP) -> None:
        if not session.has_extn("starttls"):
            raise unavailable(self._said("offers no STARTTLS; if that is meant, write ?tls=none"))
        with _Step(self, "STARTTLS"):
            code, text = session.docmd("STARTTLS")
        if code != 220:
            raise unavailable(self._said(f"refused STARTTLS: {code}", text))
        try:
            _line_of(session).secure(self._tls_context(), self._host)
        except OSError as problem:
            raise unavailable(self._said("can't be reached by TLS", problem)) from None
        # What was said in the clear counts no more: neither what was offered nor what somebody put behind the answer.
        session.file = None
        session.ehlo_resp = session.helo_resp = None
        session.esmtp_features, session.does_esmtp = {}, False
        self._introduce(session)

    def _log_in(self, session: smtplib.SMTP) -> None:
        offered = session.esmtp_features.get("auth", "").upper().split()
        with _Step(self, "AUTH"):
            if "PLAIN" in offered:
                code, text = session.docmd("AUTH", f"PLAIN {self._plain_login()}")
            elif "LOGIN" in offered:
                code, text = session.docmd("AUTH", "LOGIN")
                for word in (self._user, self._password):
                    if code == 334:
                        code, text = session.docmd(_base64(word))
            else:
                raise unavailable(self._said("offers neither AUTH PLAIN nor AUTH LOGIN"))
        if code != 235:
            raise unavailable(self._said(f"refused the login: {code}", text))

    def _deliver(self, session: smtplib.SMTP, email: Email, text: bytes) -> None:
        self._ask(session, "MAIL", f"FROM:<{email.sender.address}>{self._options(session, email, text)}")
        self._ask(session, "RCPT", f"TO:<{email.to.address}>")
        self._ask(session, "DATA", "", 354, 354)
        with _Step(self, "the data"):
            _line_of(session).sendall(_DOT.sub(b"..", text))
            _line_of(session).sendall(b".\r\n")
        self._end_of_data(session)

    def _end_of_data(self, session: smtplib.SMTP) -> None:
        try:
            code, text = session.getreply()
        except (OSError, smtplib.SMTPException) as problem:
            raise AnswerLost(self._said("gave no answer to the whole message", problem)) from None
        if not 200 <= code <= 299 and not 400 <= code <= 599:
            raise AnswerLost(self._said("gave no readable answer to the whole message", text))
        self._judge("the message", code, text)

    def _options(self, session: smtplib.SMTP, email: Email, text: bytes) -> str:
        options = f" SIZE={len(text)}" if session.has_extn("size") else ""
        boxes = (email.sender, email.to, email.reply_to)
        if all(box.local.isascii() for box in boxes if box):
            return options
        if not session.has_extn("smtputf8"):
            raise refused(self._said("takes no address with non-ASCII letters before the @"), permanent=True)
        session.command_encoding = "utf-8"
        return f"{options} BODY=8BITMIME SMTPUTF8"

    def _ask(self, session: smtplib.SMTP, verb: str, rest: str, low: int = 200, high: int = 299) -> None:
        with _Step(self, verb):
            code, text = session.docmd(verb, rest)
        self._judge(verb, code, text, low, high)

    def _judge(self, step: str, code: int, text: bytes, low: int = 200, high: int = 299) -> None:
        """Of a reply before the message was taken over: it wasn't."""
        if low <= code <= high:
            return
        said = self._said(f"refused {step}: {'no reply' if code == _UNREADABLE else code}", text)
        if code in _SETTINGS:
            raise unavailable(said)
        raise refused(said, permanent=500 <= code <= 599)

    def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context

    def _said(self, what: str, said: object = "") -> str:
        words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        secrets = (self._password, _base64(self._password), self._plain_login()) if self._password else ()
        return one_line(f"{self._host}:{self._port} {what}" + (f": {words}" if words else ""), secrets)

    def _plain_login(self) -> str:
        return _base64(f"\0{self._user}\0{self._password}")


class _Step:
    """A step before the end of the data: if it breaks off, nothing was accepted."""

    def __init__(self, smtp: Smtp, name: str) -> None:
        self._smtp, self._name = smtp, name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, _: object) -> None:
        if isinstance(problem, (OSError, smtplib.SMTPException)):
            raise refused(self._smtp._said(f"broke off at {self._name}", problem), permanent=False) from None


def _line_of(session: smtplib.SMTP) -> Line:
    return cast(Line, session.sock)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _own_name(sock: socket.socket) -> str:
    """Without DNS: smtplib's own way may wait for a resolver for half a minute."""
    name = socket.gethostname()
    if "." in name and name.isascii():
        return name
    address = sock.getsockname()[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"
