"""One HTTP API, one connection that is kept between messages.

A request whose last octet was handed to the kernel may have arrived, so a missing answer is an AnswerLost, never a
second try. A request that wasn't written to its end can't be acted upon: its length was announced. Redirects and the
environment's proxies aren't followed: they would carry keys to somebody else.
"""

from __future__ import annotations

import http.client
import json
import math
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import urlsplit

from reproq import __version__
from reproq.channels.contract import AnswerLost, one_line, unavailable
from reproq.channels.line import Line, dial

# Servers close idle connections, the quickest after 5 s. A request that meets the closing gets no answer, and nobody
# could say whether it arrived; a connection made anew costs a few milliseconds.
_IDLE_S = 4.0
_LONGEST_ANSWER = 4 * 2**20
_FAILURES = (OSError, http.client.HTTPException, ValueError)
_LONGEST_WAIT_S = 7 * 86400.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message
    body: bytes

    def json(self) -> dict[str, Any]:
        """{} when it isn't an object: a page of some proxy's, say."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def retry_after_s(self) -> float | None:
        given = (self.headers.get("Retry-After") or "").strip()
        try:
            wait = float(given) if given[:1].isdigit() else _moment(given) - self._sent_at()
        except (ValueError, TypeError, OverflowError):
            return None
        return min(max(wait, 0.0), _LONGEST_WAIT_S) if math.isfinite(wait) else None

    def _sent_at(self) -> float:
        """By the server's own clock, since the other date is by that too."""
        try:
            return _moment(self.headers.get("Date") or "")
        except (ValueError, TypeError, OverflowError):
            return time.time()


def _moment(date: str) -> float:
    return parsedate_to_datetime(date).timestamp()


class Endpoint:
    def __init__(self, url: str, headers: Mapping[str, str], secrets: tuple[str, ...]) -> None:
        parts = urlsplit(url)
        self._tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._base = parts.path.rstrip("/")
        self._headers = {"User-Agent": f"reproq/{__version__}", "Accept": "application/json", **headers}
        self._secrets = secrets
        self._context: ssl.SSLContext | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    def get(self, path: str, timeout_s: float) -> Answer:
        return self._ask("GET", path, timeout_s, None, {})

    def post(self, path: str, timeout_s: float, body: bytes, headers: Mapping[str, str]) -> Answer:
        return self._ask("POST", path, timeout_s, body, headers)

    def _ask(self, method: str, path: str, timeout_s: float, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        ends = time.monotonic() + timeout_s
        connection, self._connection = self._ready(ends), None
        try:
            broken = _written(connection, method, self._base + path, body, {**self._headers, **headers})
            answer, kept = self._read(connection, broken)
        except BaseException:
            connection.close()
            raise
        if kept:
            self._connection, self._used_at = connection, time.monotonic()
        else:
            connection.close()
        return answer

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def said(self, what: str, words: object = "") -> str:
        return one_line(f"{self._host}:{self._port} {what}" + (f": {words}" if str(words) else ""), self._secrets)

    def _ready(self, ends: float) -> http.client.HTTPConnection:
        connection, self._connection = self._connection, None
        if connection is not None:
            line = _line_of(connection)
            if time.monotonic() - self._used_at <= _IDLE_S and line.is_quiet():
                line.ends = ends
                return connection
            connection.close()
        return self._opened(ends)

    def _opened(self, ends: float) -> http.client.HTTPConnection:
        line = None
        try:
            line = dial(self._host, self._port, ends)
            if self._tls:
                line.secure(self._tls_context(), self._host)
        except OSError as problem:
            if line is not None:
                line.close()
            raise unavailable(self.said("can't be reached", problem)) from None
        connection = http.client.HTTPConnection(self._host, self._port)
        connection.default_port = 443 if self._tls else 80  # what the Host header leaves out
        connection.auto_open = 0
        connection.sock = cast(socket.socket, line)
        return connection

    def _read(self, connection: http.client.HTTPConnection, broken: OSError | None) -> tuple[Answer, bool]:
        """Also when the request broke off: a server may refuse it by its head, and close."""
        try:
            with connection.getresponse() as response:
                body = response.read(_LONGEST_ANSWER)
                if response.length:
                    raise http.client.IncompleteRead(b"", response.length)
                kept = broken is None and not response.will_close and response.isclosed()
                return Answer(response.status, response.headers, body), kept
        except _FAILURES as problem:
            if broken is not None:
                raise unavailable(self.said("broke off while the request was sent", broken)) from None
            raise AnswerLost(self.said("gave no whole answer", problem or type(problem).__name__)) from None

    def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context


def _written(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> OSError | None:
    try:
        connection.request(method, path, body, headers)
    except OSError as problem:
        return problem
    return None


def _line_of(connection: http.client.HTTPConnection) -> Line:
    return cast(Line, connection.sock)
