"""What a request brings along, read with bounds in bytes, time, depth and digits."""

from __future__ import annotations

import asyncio
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from reproq.models.document import MAX_DEPTH, NotStorable, depth, holds_nul, parse_exactly
from reproq.web.problems import Problem
from reproq.web.shapes import MOMENT

LIMIT_S = 15.0
_JSON = re.compile(r"application/json *(; *charset *= *\"?utf-8\"? *)?", re.IGNORECASE)

Shape = TypeVar("Shape", bound=BaseModel)


async def read(request: Request, shape: type[Shape], max_bytes: int, *, optional: bool = False) -> Shape:
    """The body as a checked value. `optional`: none at all is as good as {}."""
    text = await _text(request, max_bytes)
    if optional and not text.strip():
        return shape()
    if not _JSON.fullmatch(request.headers.get("content-type", "")):
        raise Problem(415, "not-json", "send application/json in UTF-8", headers={"Accept": "application/json"})
    return checked(shape, _parsed(text))


def checked(shape: type[Shape], document: object) -> Shape:
    try:
        return shape.model_validate(document)
    except ValidationError as wrong:
        faults = [{"where": _place(error["loc"]), "fault": _fault(error)} for error in wrong.errors(include_url=False)]
        detail = "; ".join(f"{fault['where']}: {fault['fault']}" for fault in faults[:3])
        raise Problem(422, "not-valid", detail[:500], faults=faults[:20]) from None


def _fault(error: ErrorDetails) -> str:
    """pydantic's sentence, but for those that speak of Python, or show a long pattern."""
    if error["type"] in ("dict_type", "model_type"):
        return "must be a JSON object"
    if error.get("ctx", {}).get("pattern") == MOMENT:
        return "must be a time with its zone, from 1970 to 8999, as 2026-01-31T12:00:00Z"
    return error["msg"].removeprefix("Value error, ")


def whole_number(name: str, text: str | None, low: int, high: int) -> int:
    if text is None:
        return low
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or not low <= int(text) <= high:
        raise Problem(400, "bad-parameter", f"{name} is a whole number from {low} to {high}", parameter=name)
    return int(text)


def parameters(request: Request, *known: str) -> dict[str, str]:
    """The query. A name that means nothing here, or stands twice, is a mistake that nobody would notice."""
    pairs = request.query_params.multi_items()
    for name, _ in pairs:
        if name not in known or sum(name == other for other, _ in pairs) > 1:
            what = "stands more than once" if name in known else "means nothing here"
            raise Problem(400, "bad-parameter", f"the query parameter {name[:60]!r} {what}", known=list(known))
    return dict(pairs)


async def _text(request: Request, max_bytes: int) -> bytes:
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced[:19]) > max_bytes:
        raise _too_large(max_bytes)
    found = bytearray()
    try:
        async with asyncio.timeout(LIMIT_S):
            async for piece in request.stream():
                found += piece
                if len(found) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        headers = {"Connection": "close"}
        raise Problem(408, "too-slow", f"the body didn't arrive in {LIMIT_S:g} seconds", headers=headers) from None
    return bytes(found)


def _too_large(max_bytes: int) -> Problem:
    return Problem(413, "too-large", f"a body has at most {max_bytes} bytes")


def _parsed(text: bytes) -> object:
    try:
        document = parse_exactly(text.decode())
    except UnicodeDecodeError:
        raise Problem(400, "not-json", "the body isn't UTF-8 text") from None
    except (NotStorable, TypeError, RecursionError) as wrong:
        what = str(wrong) if isinstance(wrong, NotStorable) else "it is nested too deeply or has a lone surrogate"
        raise Problem(422, "not-storable", f"the body can't be stored: {what}") from None
    except ValueError:
        raise Problem(400, "not-json", "the body isn't JSON") from None
    if depth(document) > MAX_DEPTH + 1:
        raise Problem(422, "not-storable", f"the body is nested deeper than {MAX_DEPTH}")
    if holds_nul(document):
        raise Problem(422, "not-storable", "the body holds a NUL character, which PostgreSQL can't store")
    return document


def _place(location: tuple[int | str, ...]) -> str:
    shown: list[Any] = [str(part)[:60] for part in location]
    return ".".join(shown) or "body"
