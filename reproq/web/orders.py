"""What changes something: enqueue, cancel, make a ticket."""

from __future__ import annotations

import re
import time
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from reproq import tickets
from reproq.queue.tasks import cancel
from reproq.queue.waiting import Enqueued, NewTask, enqueue_once
from reproq.tickets import TASK
from reproq.web.board import Subject
from reproq.web.body import parameters, read
from reproq.web.callers import Caller, unseen
from reproq.web.gateway import Gateway, gateway_of
from reproq.web.problems import Problem, away
from reproq.web.shapes import IDEMPOTENCY_KEY, CancelBody, TaskBody, TicketBody
from reproq.web.waits import number_in, path_of, seen_now


async def post_task(request: Request) -> Response:
    """201 for a new task, 200 for one that this key has stored before, 422 when it stored another one."""
    gateway = gateway_of(request)
    caller = await _writer(request, gateway, "tasks:write")
    key = _idempotency_key(request)
    body = await read(request, TaskBody, gateway.settings.max_body)
    caller.may_enqueue(body.task_type, body.queue_name)
    if body.ticket is not None:
        for scope in ("tickets:issue", "tasks:read"):
            caller.needs(scope)
        _ticket_key(gateway)
    stored: Enqueued = await gateway.store.run(enqueue_once(_new_task(body, key)), writes=True)
    if not stored.same_spec:
        text = "this Idempotency-Key has stored a task of another queue or payload before; nothing was stored now"
        raise Problem(422, "key-used-before", text)
    return _stored(gateway, stored, body.ticket)


async def post_cancel(request: Request) -> Response:
    """200 cancelled, 202 its code is being stopped, 409 it had ended."""
    gateway, number = gateway_of(request), number_in(request)
    caller = await _writer(request, gateway, "tasks:cancel")
    body = await read(request, CancelBody, gateway.settings.max_body, optional=True)
    if caller.is_limited and not caller.sees(await gateway.store.task(number)):
        raise unseen(TASK, number)
    answer: str = await gateway.store.run(cancel(number, body.reason), writes=True)
    if answer == "unknown":
        raise unseen(TASK, number)
    if answer == "too_late":
        raise Problem(409, "too-late", f"task {number} is over, and wasn't cancelled")
    return _json({"id": number, "answer": answer}, 200 if answer == "cancelled" else 202)


async def post_ticket(request: Request) -> Response:
    gateway = gateway_of(request)
    caller = await _writer(request, gateway, "tickets:issue")
    body = await read(request, TicketBody, gateway.settings.max_body)
    _ticket_key(gateway)
    caller.may_read(body.process or TASK, body.id)
    function = await gateway.store.process_function(body.process) if body.process else None
    if body.process and function is None:
        raise unseen(body.process, body.id)
    subject = Subject(body.process or TASK, body.id, function)
    if not caller.sees(await seen_now(gateway, subject)):
        raise unseen(subject.kind, subject.id)
    return _json({"url": path_of(subject), **_ticket(gateway, body.id, body.expires_in, body.process)}, 201)


async def _writer(request: Request, gateway: Gateway, scope: str) -> Caller:
    caller = await gateway.callers.caller_of(request)
    caller.needs(scope)
    parameters(request)
    if gateway.ending:
        raise away("this gateway stops; ask again, and another one answers", 1)
    return caller


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not re.fullmatch(IDEMPOTENCY_KEY, key, re.ASCII):
        raise Problem(400, "bad-idempotency-key", "an Idempotency-Key has 1 to 500 visible ASCII characters")
    return key


def _new_task(body: TaskBody, key: str | None) -> NewTask:
    fields: dict[str, Any] = body.model_dump(exclude={"payload", "ticket"})
    return NewTask(payload=orjson.dumps(body.payload), idempotency_key=key, **fields)


def _stored(gateway: Gateway, stored: Enqueued, ticket_s: int | None) -> Response:
    path = path_of(Subject(TASK, stored.id))
    document: dict[str, Any] = {"id": stored.id, "is_new": stored.is_new, "url": path, "events_url": f"{path}/events"}
    if ticket_s is not None:
        document |= _ticket(gateway, stored.id, ticket_s)
    response = _json(document, 201 if stored.is_new else 200)
    response.headers["Location"] = path
    return response


def _ticket(gateway: Gateway, number: int, seconds: int, process: str | None = None) -> dict[str, Any]:
    made = tickets.ticket(number, key=",".join(_ticket_key(gateway)), expires_in=seconds, process=process)
    return {"ticket": made, "ticket_expires_at": int(time.time() + seconds)}


def _ticket_key(gateway: Gateway) -> tuple[str, ...]:
    if not gateway.settings.ticket_keys:
        raise Problem(501, "no-ticket-key", "this gateway makes no tickets: it was started without REPROQ_TICKET_KEY")
    return gateway.settings.ticket_keys


def _json(document: dict[str, Any], status: int) -> Response:
    return Response(orjson.dumps(document), status, media_type="application/json")
