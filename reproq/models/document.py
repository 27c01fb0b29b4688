"""JSON from outside: what jsonb refuses or a later reader would choke on (NUL, depth, digits) is found here."""

from __future__ import annotations

import json
from typing import Any

import orjson

MAX_DEPTH = 64
MAX_DIGITS = 1000
_MAX_EXPONENT = 308  # what a float can be: jsonb would write out the zeros


class NotStorable(ValueError):
    """It is JSON, but nothing that PostgreSQL and every reader could hold."""


def parse_exactly(line: bytes | str) -> Any:
    """Long numbers keep every digit: they pass through as the text they came in."""
    value = json.loads(line, parse_int=_long_int, parse_float=_long_float, parse_constant=_refuse)
    orjson.dumps(value)  # a lone surrogate passes json.loads; it must fail here, not in the batch
    return value


def _long_int(text: str) -> Any:
    return int(text) if len(text) < 16 else orjson.Fragment(_checked(text))


def _long_float(text: str) -> Any:
    return float(_checked(text)) if len(text) < 16 else orjson.Fragment(_checked(text))


def _checked(text: str) -> str:
    _, _, exponent = text.lower().partition("e")
    if exponent and abs(int(exponent)) > _MAX_EXPONENT:
        raise NotStorable("a number with an exponent beyond 308")
    if len(text) > MAX_DIGITS and sum(map(str.isdigit, text)) > MAX_DIGITS:
        raise NotStorable(f"a number of more than {MAX_DIGITS} digits")
    return text


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def depth(value: Any) -> int:
    levels = 0
    level = [value]
    while level:
        levels += 1
        inner = [list(v.values()) if isinstance(v, dict) else v for v in level if isinstance(v, dict | list)]
        level = [item for items in inner for item in items]
        if not inner:
            return levels - 1
    return levels


def holds_nul(value: Any) -> bool:
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            if "\0" in item:
                return True
        elif isinstance(item, dict):
            todo += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            todo += item
    return False
