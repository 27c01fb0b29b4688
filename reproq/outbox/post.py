"""One POST after the other to one sink, over a connection that is kept.

The answer's status is all that counts: its body is read as far as the next request needs it, and dropped. Redirects and
the environment's proxies aren't followed. A whole exchange ends at one deadline, however slowly the other side speaks.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import quote, urlsplit

from reproq import __version__
from reproq.channels.endpoint import Answer
from reproq.channels.line import Line, dial_one_of
from reproq.config import SettingsError
from reproq.outbox.addresses import Gate, Refused

_IDLE_S = 4.0  # servers close idle connections, the quickest after 5 s
_LONGEST_BODY = 65536
_LONGEST_WORDS = 300


class Unreachable(Exception):
    """No answer. The text names neither path nor query of the address: they may hold a token."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address, taken apart."""

    tls: bool
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> Place:
        """Unreachable, without the address in it, when it is none."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise Unreachable("its address has a bad host or port") from None
        if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
            raise Unreachable("its address isn't one of http: https://host/path")
        if not host.isascii() or not host.isprintable() or " " in host:
            raise Unreachable("the host of its address isn't ASCII: write it in its xn-- form")
        tls = parts.scheme == "https"
        path = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe="/%:=&?~+!$,;'@()*[]-._")
        return cls(tls, host, (443 if tls else 80) if port is None else port, path)


class Post:
    """Not for several threads."""

    def __init__(self, place: Place, gate: Gate, context: ssl.SSLContext, *, allow_private: bool) -> None:
        self.place = place
        self._gate = gate
        self._context = context
        self._allow_private = allow_private
        self._connection: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    def send(self, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Answer:
        ends = time.monotonic() + timeout_s
        connection = self._kept(ends)
        if connection is not None:
            try:
                return self._exchange(connection, body, headers)
            except (ConnectionError, http.client.BadStatusLine):
                pass  # it was closed while the request went out; with the same id the request may go out again
            except (OSError, http.client.HTTPException, ValueError) as problem:
                raise self._unreachable(problem) from None
        try:
            return self._exchange(self._opened(ends), body, headers)
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise self._unreachable(problem) from None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _exchange(self, connection: http.client.HTTPConnection, body: bytes, headers: Mapping[str, str]) -> Answer:
        kept = False
        try:
            connection.request(
                "POST", self.place.path, body, {"User-Agent": f"reproq/{__version__}", "Accept": "*/*", **headers}
            )
            answer, kept = _read(connection)
        finally:
            if not kept:
                connection.close()
        if kept:
            self._connection, self._used_at = connection, time.monotonic()
        return answer

    def _kept(self, ends: float) -> http.client.HTTPConnection | None:
        connection, self._connection = self._connection, None
        if connection is None:
            return None
        line = cast(Line, connection.sock)
        if time.monotonic() - self._used_at <= _IDLE_S and line.is_quiet():
            line.ends = ends
            return connection
        connection.close()
        return None

    def _opened(self, ends: float) -> http.client.HTTPConnection:
        place = self.place
        line = self._dialled(ends)
        try:
            if place.tls:
                line.secure(self._context, place.host)
        except BaseException:
            line.close()
            raise
        connection = http.client.HTTPConnection(place.host, place.port)
        connection.default_port = 443 if place.tls else 80  # what the Host header leaves out
        connection.auto_open = 0
        connection.sock = cast(socket.socket, line)
        return connection

    def _dialled(self, ends: float) -> Line:
        """To one of the very addresses that were judged."""
        found = self._gate.addresses(self.place.host, self.place.port, allow_private=self._allow_private, ends=ends)
        return dial_one_of(found, ends)

    def _unreachable(self, problem: Exception) -> Unreachable:
        if isinstance(problem, Refused):
            return Unreachable(str(problem))
        if isinstance(problem, ssl.SSLCertVerificationError):
            words = f"its certificate isn't trusted: {problem.verify_message}"
        elif isinstance(problem, TimeoutError):
            words = str(problem) or "timed out"
        else:
            words = f"no answer: {problem or type(problem).__name__}"
        # Whoever answers chose these octets; the database's JSON refuses a NUL.
        printable = "".join(each if each.isprintable() else " " for each in words)
        return Unreachable(" ".join(printable.split())[:_LONGEST_WORDS])


def _read(connection: http.client.HTTPConnection) -> tuple[Answer, bool]:
    """The answer, and whether the connection can take another request. Once the status is there, it counts."""
    response = connection.getresponse()
    try:
        response.read(_LONGEST_BODY)
        kept = response.isclosed() and not response.will_close
    except (OSError, http.client.HTTPException, ValueError):
        kept = False
    response.close()
    return Answer(response.status, response.headers, b""), kept


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """The system's authorities, and those of a file."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError):
            raise SettingsError(f"{ca_file} holds no certificates in PEM that could be read") from None
    return context
