"""A child's first line: which types it serves, and their settings. Read with the same suspicion as an answer."""

from __future__ import annotations

from typing import Any

import orjson

_SECONDS = ("timeout", "lease", "backoff_base", "backoff_cap")
_MOST_S = 366 * 86400.0


def read_hello(line: bytes) -> dict[str, Any]:
    """The line with `types`; a ValueError says what is wrong with it."""
    said = orjson.loads(line)
    if not isinstance(said, dict) or said.get("v") != 1:
        raise ValueError("it is not a ready line of version 1")
    types = {str(name): dict(given or {}) for name, given in (said.get("types") or {}).items()}
    for name, given in types.items():
        _check(name, given)
    return said | {"types": types}


def _check(name: str, given: dict[str, Any]) -> None:
    for setting in _SECONDS:
        value = given.get(setting)
        if value is not None and (isinstance(value, bool) or not 0 < float(value) <= _MOST_S):
            raise ValueError(f"{setting} of {name} is not a number of seconds above 0")
    attempts = given.get("max_attempts")
    if attempts is not None and (type(attempts) is not int or not 1 <= attempts <= 100_000):
        raise ValueError(f"max_attempts of {name} is not a whole number from 1 to 100000")
