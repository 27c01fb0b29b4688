"""The one way in: finds the route, answers every failure with a problem, adds the headers, writes the log line, counts.

A log line has the path without its query, since a ticket may stand there, and no header at all.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from traceback import format_exception
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Message, Receive, Scope, Send

from reproq import log
from reproq.log import Event
from reproq.web.gateway import Gateway
from reproq.web.problems import Problem
from reproq.web.protocol import HEADERS_BYTES
from reproq.web.waits import Gone

_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
_YEAR = "max-age=31536000"
_MAY_SEND = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID"
_MAY_SEE = "Location, Retry-After"
_QUIET = ("/livez", "/readyz", "/metrics")  # asked every few seconds, by machines


class Door:
    def __init__(self, gateway: Gateway, routes: Sequence[BaseRoute]) -> None:
        self._gateway = gateway
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await Visit(self._gateway, self._routes, scope, receive, send).run()


class Visit:
    """One request, from its first line to the log line about it."""

    def __init__(
        self, gateway: Gateway, routes: Sequence[BaseRoute], scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._gateway = gateway
        self._routes = routes
        self._scope: dict[str, Any] = {**scope, "gateway": gateway}
        self._receive = receive
        self._out = send
        self._status: int | None = None
        self._route = "none"
        self._request = Request(self._scope)

    async def run(self) -> None:
        began = time.monotonic()
        try:
            self._check_head()
            await self._answer()
        except (Gone, ClientDisconnect):
            pass
        except Problem as problem:
            await self._refuse(problem)
        except TimeoutError:  # a reader that doesn't read
            pass
        except Exception as bug:  # noqa: BLE001 - the caller gets a problem, the log the traceback
            await self._refuse(self._bug(bug))
        self._note(time.monotonic() - began)

    def _check_head(self) -> None:
        """Two lengths are how a request is smuggled past a proxy. The connection ends with the refusal."""
        headers, end = self._scope["headers"], {"Connection": "close"}
        names = {name for name, _ in headers}
        if b"content-length" in names and b"transfer-encoding" in names:
            raise Problem(400, "not-http", "Content-Length and Transfer-Encoding contradict each other", headers=end)
        size = len(self._scope["raw_path"]) + sum(len(name) + len(value) + 4 for name, value in headers)
        if size + len(self._scope["query_string"]) > HEADERS_BYTES:
            raise Problem(431, "headers-too-long", f"path and headers have at most {HEADERS_BYTES} bytes", headers=end)

    async def _answer(self) -> None:
        allowed: set[str] = set()
        for route in self._routes:
            match, child = route.matches(self._scope)
            if match is not Match.NONE:
                self._route = getattr(route, "path", "other")
                allowed |= getattr(route, "methods", None) or set()
            if match is Match.FULL:
                self._scope.update(child)
                await route.handle(self._scope, self._receive, self._send)
                return
        await self._without_route(", ".join(sorted({*allowed, "OPTIONS"})) if allowed else None)

    async def _without_route(self, allowed: str | None) -> None:
        if allowed is None:
            raise Problem(404, "not-found", "there is nothing at this path; see /v1/openapi.json")
        if self._scope["method"] != "OPTIONS":
            raise Problem(405, "method-not-allowed", f"here only {allowed}", headers={"Allow": allowed})
        await self._give(Response(status_code=204, headers={"Allow": allowed, **self._preflight(allowed)}))

    def _preflight(self, allowed: str) -> dict[str, str]:
        if self._origin() is None or "access-control-request-method" not in self._request.headers:
            return {}
        rights = {"Access-Control-Allow-Methods": allowed, "Access-Control-Allow-Headers": _MAY_SEND}
        return rights | {"Access-Control-Max-Age": "600"}

    def _origin(self) -> str | None:
        """The browser page's origin, if it may ask."""
        origin = self._request.headers.get("origin", "").lower()
        return origin if origin in self._gateway.settings.cors_origins else None

    async def _refuse(self, problem: Problem) -> None:
        if self._status is None:
            await self._give(problem.response())

    async def _give(self, response: Response) -> None:
        await response(self._scope, self._receive, self._send)

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._add_headers(MutableHeaders(raw=message["headers"]))
        await self._out(message)

    def _add_headers(self, headers: MutableHeaders) -> None:
        for name, value in _HEADERS.items():
            headers.setdefault(name, value)
        if self._scope["scheme"] == "https":
            headers.setdefault("Strict-Transport-Security", _YEAR)
        if self._gateway.settings.cors_origins:
            headers.add_vary_header("Origin")
        origin = self._origin()
        if origin is not None:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = _MAY_SEE
        if self._gateway.ending:
            headers["Connection"] = "close"

    def _bug(self, bug: Exception) -> Problem:
        traceback = "".join(format_exception(bug))
        text = f"{self._scope['method']} {self._route} failed: {bug!r}"
        log.say(Event.INTERNAL_ERROR, text, logging.ERROR, traceback=traceback)
        return Problem(500, "internal", "this is a bug of the gateway's; its log says more")

    def _note(self, took_s: float) -> None:
        method, path = self._scope["method"], self._scope["path"]
        known = method if method in _METHODS else "other"
        self._gateway.counts.answered(self._route, known, self._status or 499, took_s)
        level = logging.DEBUG if path in _QUIET else logging.INFO
        peer = self._scope["client"][0] if self._scope.get("client") else None
        log.say(
            Event.HTTP_REQUEST, f"{method} {path}"[:300], level,
            route=self._route, status=self._status or 499, took_ms=round(took_s * 1000, 1), peer=peer,
        )  # fmt: skip


_METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"})
