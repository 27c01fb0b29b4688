"""/livez: the loop runs, restart me if not. /readyz: send requests here. Both are open to everybody and tell nothing.
/metrics: what the gateway counts of itself, for the scope metrics:read."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from reproq.metrics import chosen_type, render
from reproq.metrics.gateway import gateway_families
from reproq.web.body import parameters
from reproq.web.counts import BOUNDS_S
from reproq.web.gateway import gateway_of
from reproq.web.problems import Problem, away


async def livez(request: Request) -> Response:
    parameters(request)
    if not gateway_of(request).watch.alive:
        raise Problem(500, "dead", "the look for all who wait has ended; restart this gateway")
    return Response(b'{"status": "ok"}', media_type="application/json")


async def readyz(request: Request) -> Response:
    parameters(request)
    gateway = gateway_of(request)
    if gateway.ending:
        raise away("this gateway stops", 1)
    if not await gateway.store.is_served():
        raise away("the database's schema isn't of this program's version; run `reproq migrate`", 10)
    return Response(b'{"status": "ok"}', media_type="application/json")


async def metrics(request: Request) -> Response:
    parameters(request)
    gateway = gateway_of(request)
    (await gateway.callers.caller_of(request, also_while_away=True)).needs("metrics:read")
    kind = chosen_type(request.headers.get("accept", ""))
    return Response(render(gateway_families(gateway.counts, BOUNDS_S), kind), media_type=kind)
