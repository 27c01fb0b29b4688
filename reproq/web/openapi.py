"""The OpenAPI document, out of the shapes that check the bodies. A test drives the real gateway by it."""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import BaseModel

from reproq import __version__
from reproq.metrics.text import OPEN, PLAIN
from reproq.models.states import FailureKind, Status
from reproq.web.problems import MEDIA_TYPE
from reproq.web.shapes import IDEMPOTENCY_KEY, MAX_WAIT_S, PROCESS, CancelBody, TaskBody, TicketBody

Schema = dict[str, Any]

_ID: Schema = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
_TIME: Schema = {"type": ["string", "null"], "format": "date-time"}
_TEXT: Schema = {"type": ["string", "null"]}
_OVER: Schema = {"type": "boolean", "description": "nothing will change any more, but by a replay"}
_NEXT: Schema = {"type": "string", "description": "where to ask next, as Location says; only while it isn't over"}


def _object(properties: Schema, *optional: str) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


TASK = _object(
    {
        "id": _ID,
        "task_type": {"type": "string"},
        "queue_name": {"type": "string"},
        "status": {"enum": [status.value for status in Status]},
        "over": _OVER,
        "result": {"description": "what the task answered; null unless SUCCESSFUL"},
        "failure_kind": {**_TEXT, "examples": [kind.value for kind in FailureKind][:3]},
        "error": {**_TEXT, "description": "the last error's message, or why it was cancelled"},
        "attempt": {"type": "integer", "minimum": 0},
        "max_attempts": {"type": "integer", "minimum": 1},
        "created_at": {"type": "string", "format": "date-time"},
        "started_at": _TIME,
        "completed_at": _TIME,
        "next": _NEXT,
    },
    "next",
)
PROCESS_STATE = _object(
    {
        "process": {"type": "string"},
        "id": _ID,
        "over": _OVER,
        "status": {"description": "what the process's own status function says"},
        "next": _NEXT,
    },
    "next",
)
STORED = _object(
    {
        "id": _ID,
        "is_new": {"type": "boolean", "description": "false: this key, or the same work, was there before"},
        "url": {"type": "string"},
        "events_url": {"type": "string"},
        "ticket": {"type": "string"},
        "ticket_expires_at": {"type": "integer", "description": "Unix time"},
    },
    "ticket",
    "ticket_expires_at",
)
TICKET = _object({"url": {"type": "string"}, "ticket": {"type": "string"}, "ticket_expires_at": {"type": "integer"}})
CANCELLED = _object({"id": _ID, "answer": {"enum": ["cancelled", "stopping"]}})
HEALTH = _object({"status": {"const": "ok"}})
PROBLEM = _object(
    {
        "type": {"type": "string", "pattern": "^urn:reproq:problem:"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    }
)
_REASONS = {
    400: "The request isn't understood.",
    401: "A token or ticket is missing, wrong, expired or revoked.",
    403: "The token or ticket doesn't allow this.",
    404: "It isn't there, or not for this caller.",
    405: "Not by this method; Allow says by which.",
    408: "The body came too slowly.",
    409: "It is over already.",
    413: "The body is too large.",
    415: "The body isn't application/json.",
    422: "The values are refused.",
    429: "Too many wait with this ticket.",
    431: "Path and headers are too long.",
    500: "A bug; the log says more.",
    501: "The gateway has no ticket key.",
    503: "The database is away, or the gateway is full or stopping; Retry-After says when to ask again.",
}
_ALWAYS = (400, 405, 431, 500)
_OF_CALLER = (401, 403, 503)
_OF_BODY = (408, 413, 415, 422)


def _answer(what: str, schema: str, **headers: str) -> Schema:
    answer: Schema = {"description": what, "content": {"application/json": {"schema": _ref(schema)}}}
    if headers:
        known = {
            name.replace("_", "-"): {"schema": {"type": "string"}, "description": text}
            for name, text in headers.items()
        }
        answer["headers"] = known
    return answer


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _problems(*codes: int) -> Schema:
    """Of what needs a token or a ticket."""
    return _refusals(*_OF_CALLER, *codes)


def _refusals(*codes: int) -> Schema:
    content = {MEDIA_TYPE: {"schema": _ref("Problem")}}
    return {str(code): {"description": _REASONS[code], "content": content} for code in sorted({*_ALWAYS, *codes})}


def _body(shape: type[BaseModel], *, required: bool = True) -> Schema:
    return {"required": required, "content": {"application/json": {"schema": _ref(shape.__name__)}}}


def _in_path(name: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": schema}


_BY_ID = _in_path("id", _ID)
_BY_PROCESS = _in_path("process", {"type": "string", "pattern": PROCESS})
_WAIT: Schema = {
    "name": "wait",
    "in": "query",
    "schema": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S, "default": 0},
    "description": "hold the connection open, in silence, until it is over or so many seconds are",
}
_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "pattern": IDEMPOTENCY_KEY},
    "description": "the same type and key again answers the first task; without one a lost answer can't be repeated",
}
_LAST: Schema = {
    "name": "Last-Event-ID",
    "in": "header",
    "schema": {"type": "string", "pattern": "^[0-9]{1,19}\\.[A-Z]{1,20}$"},
    "description": "what an EventSource that reconnects sends by itself",
}
_WITH_TOKEN: list[Schema] = [{"token": []}]
_WITH_EITHER: list[Schema] = [{"token": []}, {"ticket": []}]
_LATER = {"Location": "where to ask next", "Retry_After": "seconds"}
_STORED = {"Location": "the task"}
_EVENT: Schema = {
    "id": {"type": "string"},
    "event": {"enum": ["status", "over", "gone"]},
    "data": {"type": "string", "description": "a task, as JSON"},
    "retry": {"type": "integer"},
}
_STREAM: Schema = {
    "description": "Events `status` and, as the last one, `over`; their data is a task, their id `claim_no.status`.",
    "content": {"text/event-stream": {"schema": _object(_EVENT, *_EVENT)}},
}


def _waiting(operation: str, what: str, schema: str, *path: Schema) -> Schema:
    answers = {"200": _answer("It is over.", schema), "202": _answer("Not over yet.", schema, **_LATER)}
    return {
        "operationId": operation,
        "summary": what,
        "parameters": [*path, _WAIT],
        "security": _WITH_EITHER,
        "responses": {**answers, **_problems(404, 429)},
    }


_ENQUEUE: Schema = {
    "operationId": "enqueue",
    "summary": "Store a task",
    "parameters": [_KEY],
    "requestBody": _body(TaskBody),
    "security": _WITH_TOKEN,
    "responses": {
        "200": _answer("It was there before; nothing was stored.", "Stored", **_STORED),
        "201": _answer("Stored.", "Stored", **_STORED),
        **_problems(*_OF_BODY, 501),
    },
}
_EVENTS: Schema = {
    "operationId": "events",
    "summary": "Follow a task",
    "parameters": [_BY_ID, _LAST],
    "security": _WITH_EITHER,
    "responses": {"200": _STREAM, "204": {"description": "Nothing comes after this id."}, **_problems(404, 429)},
}
_CANCEL: Schema = {
    "operationId": "cancel",
    "summary": "Cancel a task",
    "parameters": [_BY_ID],
    "requestBody": _body(CancelBody, required=False),
    "security": _WITH_TOKEN,
    "responses": {
        "200": _answer("Cancelled; nothing runs.", "Cancelled"),
        "202": _answer("Its code is being stopped.", "Cancelled"),
        **_problems(*_OF_BODY, 404, 409),
    },
}
_MAKE_TICKET: Schema = {
    "operationId": "makeTicket",
    "summary": "Make a ticket for a browser",
    "requestBody": _body(TicketBody),
    "security": _WITH_TOKEN,
    "responses": {"201": _answer("Made.", "Ticket"), **_problems(*_OF_BODY, 404, 501)},
}


_METRICS: Schema = {
    "operationId": "metrics",
    "summary": "What the gateway counts of itself",
    "security": _WITH_TOKEN,
    "responses": {
        "200": {
            "description": "The text that Prometheus reads, or OpenMetrics.",
            "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in (PLAIN, OPEN)},
        },
        **_problems(),
    },
}


def _health(operation: str, what: str, *codes: int) -> Schema:
    answers = {"200": _answer("Yes.", "Health"), **_refusals(*codes)}
    return {"operationId": operation, "summary": what, "security": [], "responses": answers}


def _shape(shape: type[BaseModel]) -> Schema:
    return shape.model_json_schema(ref_template="#/components/schemas/{model}")


DOCUMENT: Schema = {
    "openapi": "3.1.0",
    "info": {"title": "Reproq", "version": __version__, "description": "Tasks in PostgreSQL, over HTTP."},
    "paths": {
        "/v1/tasks": {"post": _ENQUEUE},
        "/v1/tasks/{id}": {"get": _waiting("task", "How a task stands, or wait until it is over", "Task", _BY_ID)},
        "/v1/tasks/{id}/events": {"get": _EVENTS},
        "/v1/tasks/{id}/cancel": {"post": _CANCEL},
        "/v1/processes/{process}/{id}": {
            "get": _waiting("process", "How a business process stands", "Process", _BY_PROCESS, _BY_ID)
        },
        "/v1/tickets": {"post": _MAKE_TICKET},
        "/livez": {"get": _health("livez", "Does it run?")},
        "/readyz": {"get": _health("readyz", "Can it serve?", 503)},
        "/metrics": {"get": _METRICS},
    },
    "components": {
        "securitySchemes": {
            "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "a token of `reproq tokens create`, or a ticket",
            },
            "ticket": {"type": "apiKey", "in": "query", "name": "ticket"},
        },
        "schemas": {
            "Task": TASK,
            "Process": PROCESS_STATE,
            "Stored": STORED,
            "Ticket": TICKET,
            "Cancelled": CANCELLED,
            "Health": HEALTH,
            "Problem": PROBLEM,
            "TaskBody": _shape(TaskBody),
            "CancelBody": _shape(CancelBody),
            "TicketBody": _shape(TicketBody),
        },
    },
}
TEXT = orjson.dumps(DOCUMENT)
