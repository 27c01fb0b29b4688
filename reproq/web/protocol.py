"""uvicorn's HTTP/1.1 connection, with the bounds and the answers that ours has.

What isn't HTTP gets a problem too. A client that sends its request byte by byte, or goes on sending after the answer,
doesn't keep a connection for that.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from reproq.web.problems import MEDIA_TYPE, Problem

HEADERS_LIMIT_S = 10.0
HEADERS_BYTES = 32 * 1024
AFTER_ANSWER_BYTES = 4 * 1024 * 1024


class GatewayProtocol(H11Protocol):
    _slow: asyncio.TimerHandle | None = None
    _unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        begins = self.conn.their_state is h11.IDLE and not self._answering()
        if self._slow is None and (begins or self._is_unread()):
            self._expect_headers()
        if self._is_unread():
            self._unread += len(data)
            if self._unread > AFTER_ANSWER_BYTES:
                self.transport.abort()
                return
        super().data_received(data)

    def _is_unread(self) -> bool:
        """A body that goes on coming although its request was answered: refused, as a rule."""
        return self.cycle is not None and self.cycle.response_complete and self.cycle.more_body

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._unread = 0
            self._headers_came()

    def send_400_response(self, msg: str) -> None:
        self._headers_came()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # an answer has begun: another one in the middle of it would be nonsense
            return
        if self.cycle is not None and self._answering():
            self.cycle.disconnected = True  # this is the answer: who works on another one stops
            self.cycle.message_event.set()
        body = Problem(400, "not-http", "this isn't an HTTP/1.1 request, or its headers are too long").response().body
        headers = [("content-type", MEDIA_TYPE), ("connection", "close"), ("content-length", str(len(body)))]
        head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (head, h11.Data(data=bytes(body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_headers(self) -> None:
        self._slow = self.loop.call_later(HEADERS_LIMIT_S, self._too_slow)

    def _headers_came(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _too_slow(self) -> None:
        self._slow = None
        if not self._answering():
            self.transport.abort()

    def _unsupported_upgrade_warning(self) -> None:
        """Somebody who asks for WebSocket gets plain HTTP; nobody needs to read of it."""


def settings() -> dict[str, Any]:
    """What uvicorn is told about its connections."""
    return {"http": GatewayProtocol, "h11_max_incomplete_event_size": HEADERS_BYTES, "ws": "none"}
