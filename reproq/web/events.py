"""GET /v1/tasks/{id}/events: server-sent events, one for each state that a look finds.

An event's id is `claim_no.status`, so a browser that reconnects (it sends Last-Event-ID by itself) isn't told again
what it knows. After the last event a reconnect is answered by 204, which ends an EventSource for good.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from reproq.queue.waiting import Sight
from reproq.tickets import TASK
from reproq.web.board import Follower, Subject
from reproq.web.body import parameters
from reproq.web.callers import Caller, unseen
from reproq.web.gateway import Gateway, gateway_of
from reproq.web.problems import Problem
from reproq.web.waits import leaving, number_in, place, seen_now

RETRY_MS = 2000
WRITE_LIMIT_S = 30.0  # a reader that doesn't read may not be waited for


async def get_events(request: Request) -> Response:
    gateway, number = gateway_of(request), number_in(request)
    caller = await gateway.callers.caller_of(request)
    caller.may_read(TASK, number)
    parameters(request, "ticket")
    now = await seen_now(gateway, Subject(TASK, number))
    if not caller.sees(now):
        raise unseen(TASK, number)
    last = request.headers.get("last-event-id")
    if now.is_over and now.mark == last:
        return Response(status_code=204)
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    return EventStream(request, gateway, caller, now, last)


class EventStream(Response):
    media_type = "text/event-stream"

    def __init__(self, request: Request, gateway: Gateway, caller: Caller, now: Sight, last: str | None) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._request = request
        self._gateway = gateway
        self._caller = caller
        self._now = now
        self._last = last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        subject = Subject(TASK, self._now.id)
        with (
            place(self._gateway, self._caller, subject) as follower,
            leaving(self._request, follower) as left,
        ):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            with suppress(Problem):  # a long result that can't be fetched now: the reader comes back for it
                await self._tell(follower, left, send)
            await self._write(send, b"", more=False)

    async def _tell(self, follower: Follower, left: asyncio.Task[None], send: Send) -> None:
        await self._write(send, b"retry: %d\n\n" % RETRY_MS)
        if self._now.mark != self._last or self._now.is_over:
            await self._write(send, _event(await self._whole(self._now)))
        follower.seen = self._now.mark
        over = self._now.is_over
        while not (over or left.done() or self._gateway.ending):
            if not await self._woken(follower):
                await self._write(send, b": keep-alive\n\n")
                if not await self._gateway.callers.still_good(self._caller):
                    return
                continue
            sight = follower.news()
            if sight is not None:
                await self._write(send, _event(await self._whole(sight)) if sight.mark else _GONE)
                over = sight.is_over or sight.mark is None

    async def _woken(self, follower: Follower) -> bool:
        try:
            async with asyncio.timeout(self._gateway.settings.keep_alive_s):
                await follower.woken.wait()
                follower.woken.clear()
                return True
        except TimeoutError:
            return False

    async def _whole(self, sight: Sight) -> Sight:
        return sight if sight.document is not None else await seen_now(self._gateway, Subject(TASK, sight.id))

    async def _write(self, send: Send, body: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(WRITE_LIMIT_S):
            await send({"type": "http.response.body", "body": body, "more_body": more})


_GONE = b"event: gone\ndata: {}\n\n"


def _event(sight: Sight) -> bytes:
    """`status` while it goes on, `over` for the last one."""
    name = b"over" if sight.is_over else b"status"
    return b"id: %s\nevent: %s\ndata: %s\n\n" % ((sight.mark or "").encode(), name, sight.document or b"{}")
