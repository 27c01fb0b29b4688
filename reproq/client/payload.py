"""A payload as JSON text, or a clear refusal before anything is sent.

orjson is fast, but writes NaN and infinity as null and refuses integers beyond 64 bits. So a text with a null in it is
looked through for such floats, and what orjson refuses goes through the standard library, which takes integers of any
size. Size, depth and number length are checked by the database, at the one door every language uses.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from reproq.client.errors import EnqueueRefused

_HINT = "a payload is a JSON object: dict with text keys, list, str, int, finite float, bool, None"
_TOO_BIG = 10**1000
_NUL = "\\u0000"
_MASK = "**********"  # what pydantic shows of a secret


def encode(payload: object) -> str:
    text = "{}" if payload is None else encode_data(payload)
    if text[0] != "{":
        raise EnqueueRefused(f"a payload must be an object, not {type(payload).__name__}", _HINT, "RQ002")
    return text


def encode_data(data: object) -> str:
    """Any JSON, as the data of an event may be."""
    import orjson

    value = _plain(data)
    try:
        text = orjson.dumps(value).decode()
    except (TypeError, ValueError, RecursionError):
        text = _slowly(value)
    if "null" in text or _NUL in text:
        _inspect(value)
    return text


def encode_all(payloads: Iterable[object]) -> list[str]:
    if isinstance(payloads, (Mapping, str, bytes)):
        raise EnqueueRefused("payloads must be a list of payloads", "for a single one use enqueue", "RQ002")
    return [encode(payload) for payload in payloads]


def _plain(payload: object) -> object:
    dump = getattr(payload, "model_dump", None)  # a pydantic model
    if dump is None:
        return payload
    plain = dump(mode="json", by_alias=True)
    if _has(plain, _MASK) and _has_secret(payload):
        raise EnqueueRefused(
            "the payload has a secret, which would be stored as asterisks",
            "pass a reference to it; or a serializer of the model's own, if it may lie in the database",
            "RQ002",
        )
    return plain


def _has(plain: object, text: str) -> bool:
    if isinstance(plain, dict):
        return any(_has(item, text) for item in plain.values())
    return any(_has(item, text) for item in plain) if isinstance(plain, list) else plain == text


def _has_secret(value: object) -> bool:
    if isinstance(value, (list, tuple, set)):
        return any(map(_has_secret, value))
    inside = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
    return hasattr(value, "get_secret_value") or any(map(_has_secret, inside.values()))


def _slowly(value: object) -> str:
    """Big integers, or a reason why it can't be."""
    try:
        _inspect(value)
        return json.dumps(value, allow_nan=False, default=_default)
    except RecursionError:
        raise EnqueueRefused("the payload is nested too deeply", "64 levels are the limit", "RQ002") from None
    except (TypeError, ValueError) as problem:
        raise EnqueueRefused(f"the payload isn't JSON: {problem}", _HINT, "RQ002") from None


def _default(value: object) -> Any:
    """dataclass, UUID, date, time, enum: as orjson writes them."""
    import orjson

    return orjson.loads(orjson.dumps(value))


def _inspect(value: object, where: str = "payload") -> None:
    """Find what JSON or PostgreSQL can't hold, and say where it is."""
    if isinstance(value, str):
        _inspect_text(value, where)
    elif isinstance(value, (float, int)):
        _inspect_number(value, where)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _refusal(where, f"the key {key!r:.60} isn't a text")
            _inspect_text(key, f"{where} (a key)")
            _inspect(item, f"{where}.{key:.40}")
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            _inspect(item, f"{where}[{place}]")


def _inspect_number(value: float, where: str) -> None:
    if isinstance(value, int):
        if abs(value) >= _TOO_BIG:  # Python itself won't write the longest ones, and would say how to change that
            raise _refusal(where, "a number has at most 1000 digits")
    elif not math.isfinite(value):
        raise _refusal(where, f"{value} isn't a JSON number")


def _inspect_text(text: str, where: str) -> None:
    if "\0" in text:
        raise _refusal(where, "has a NUL character, which PostgreSQL can't store")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refusal(where, "has a lone surrogate, which isn't text") from None


def _refusal(where: str, problem: str) -> EnqueueRefused:
    shown = where.encode("ascii", "backslashreplace").decode().replace("\0", "?")
    return EnqueueRefused(f"{shown}: {problem}", _HINT, "RQ002")
