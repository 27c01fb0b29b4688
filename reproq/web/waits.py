"""GET of a task or a process: at once, or held open and silent until it is over, the time is, or the gateway stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import Response

from reproq.queue.waiting import Sight
from reproq.tickets import TASK
from reproq.web.board import Follower, Subject
from reproq.web.body import parameters, whole_number
from reproq.web.callers import Caller, unseen
from reproq.web.gateway import Gateway, gateway_of
from reproq.web.problems import Problem, away
from reproq.web.shapes import MAX_WAIT_S

MAX_ID = 2**63 - 1


async def get_task(request: Request) -> Response:
    number = number_in(request)
    caller = await gateway_of(request).callers.caller_of(request)
    caller.may_read(TASK, number)
    return await _answered(request, caller, Subject(TASK, number))


async def get_process(request: Request) -> Response:
    gateway, number, name = gateway_of(request), number_in(request), request.path_params["process"]
    caller = await gateway.callers.caller_of(request)
    caller.may_read(name, number)
    function = await gateway.store.process_function(name)
    if function is None:
        raise unseen(name, number)
    return await _answered(request, caller, Subject(name, number, function))


def number_in(request: Request) -> int:
    text = request.path_params["id"]
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) <= MAX_ID):
        raise Problem(404, "not-found", "ids are whole numbers above 0")
    return int(text)


async def seen_now(gateway: Gateway, subject: Subject) -> Sight:
    if subject.function is None:
        return await gateway.store.task(subject.id)
    return await gateway.store.process(subject.function, subject.id)


async def _answered(request: Request, caller: Caller, subject: Subject) -> Response:
    wait_s = whole_number("wait", parameters(request, "wait", "ticket").get("wait"), 0, MAX_WAIT_S)
    gateway = gateway_of(request)
    if wait_s and not gateway.ending:
        sight = await _waited(request, gateway, caller, subject, wait_s)
    else:
        sight = await seen_now(gateway, subject)
    if not caller.sees(sight):
        raise unseen(subject.kind, subject.id)
    return over(subject, sight) if sight.is_over else not_yet(subject, sight)


async def _waited(request: Request, gateway: Gateway, caller: Caller, subject: Subject, wait_s: int) -> Sight:
    with place(gateway, caller, subject) as follower, leaving(request, follower) as left:
        sight = await _last_news(gateway, caller, follower, left, wait_s)
    if sight is None and not gateway.ending:
        raise away("the database is away, and nothing could be seen in the whole time")
    if sight is None or (sight.is_over and sight.document is None):
        return await seen_now(gateway, subject)
    return sight


async def _last_news(
    gateway: Gateway, caller: Caller, follower: Follower, left: asyncio.Task[None], wait_s: int
) -> Sight | None:
    latest = None
    try:
        async with asyncio.timeout(wait_s):
            while True:
                await follower.woken.wait()
                follower.woken.clear()
                if left.done():
                    raise Gone
                latest = follower.news() or latest
                if gateway.ending or (latest is not None and (latest.is_over or not caller.sees(latest))):
                    break
    except TimeoutError:
        pass
    return latest


@contextmanager
def place(gateway: Gateway, caller: Caller, subject: Subject) -> Iterator[Follower]:
    """A place among those who wait, as long as there is one."""
    if gateway.counts.waiting >= gateway.settings.max_waiters:
        raise away(f"{gateway.settings.max_waiters} wait already", 5, "too-many-waits")
    with gateway.callers.waiting(caller), gateway.watch.following(subject) as follower:
        yield follower


class Gone(Exception):
    """The client has left: there is nobody to answer."""


@contextmanager
def leaving(request: Request, follower: Follower) -> Iterator[asyncio.Task[None]]:
    """A task that is done when the client has left; its follower is woken then."""
    left = asyncio.create_task(_gone(request))
    left.add_done_callback(lambda _: follower.woken.set())
    try:
        yield left
    finally:
        left.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def over(subject: Subject, sight: Sight) -> Response:
    return Response(shown(subject, sight), media_type="application/json")


def not_yet(subject: Subject, sight: Sight) -> Response:
    """202: not over yet, ask there again."""
    again = f"{path_of(subject)}?wait={MAX_WAIT_S // 2}"
    headers = {"Location": again, "Retry-After": "1"}
    body = shown(subject, sight)[:-1] + b', "next": "' + again.encode() + b'"}'
    return Response(body, 202, headers, "application/json")


def path_of(subject: Subject) -> str:
    return f"/v1/tasks/{subject.id}" if subject.kind == TASK else f"/v1/processes/{subject.kind}/{subject.id}"


def shown(subject: Subject, sight: Sight) -> bytes:
    """The document as the database wrote it: no number loses a digit on its way through here."""
    document = sight.document or b"{}"
    if subject.kind == TASK:
        return document
    is_over = b"true" if sight.is_over else b"false"
    head = f'{{"process": "{subject.kind}", "id": {subject.id}, "over": '.encode()
    return head + is_over + b', "status": ' + document + b"}"
