"""Refusals, as RFC 9457 wants them: application/problem+json, never a stack trace."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """Ends the request with this answer. `code` is the stable word that programs go by."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = more

    def document(self) -> dict[str, Any]:
        title = HTTPStatus(self.status).phrase
        kind = f"urn:reproq:problem:{self.code}"
        return {"type": kind, "title": title, "status": self.status, "detail": self.detail, **self.more}

    def response(self) -> Response:
        return Response(orjson.dumps(self.document()), self.status, self.headers, MEDIA_TYPE)


def away(detail: str, retry_after_s: int = 2, code: str = "unavailable") -> Problem:
    return Problem(503, code, detail, headers={"Retry-After": str(retry_after_s)})


def not_found(what: str) -> Problem:
    return Problem(404, "not-found", f"no {what}, or not for you")
