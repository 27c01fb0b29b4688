"""What may be asked. Pages add their routes here; all pass through door.py."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from reproq.web import events, health, orders, waits
from reproq.web.body import parameters
from reproq.web.openapi import TEXT


async def openapi(request: Request) -> Response:
    parameters(request)
    return Response(TEXT, media_type="application/json")


ROUTES: list[BaseRoute] = [
    Route("/v1/tasks", orders.post_task, methods=["POST"]),
    Route("/v1/tasks/{id}", waits.get_task, methods=["GET"]),
    Route("/v1/tasks/{id}/events", events.get_events, methods=["GET"]),
    Route("/v1/tasks/{id}/cancel", orders.post_cancel, methods=["POST"]),
    Route("/v1/processes/{process}/{id}", waits.get_process, methods=["GET"]),
    Route("/v1/tickets", orders.post_ticket, methods=["POST"]),
    Route("/v1/openapi.json", openapi, methods=["GET"]),
    Route("/livez", health.livez, methods=["GET"]),
    Route("/readyz", health.readyz, methods=["GET"]),
    Route("/metrics", health.metrics, methods=["GET"]),
]
