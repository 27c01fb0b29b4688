"""The arguments of an enqueue as SQL: which are given decides the text, and every value travels as text.

Text with a cast is the one form that psycopg, psycopg2, pg8000, asyncpg and Django's wrappers all send alike.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypedDict

from reproq.client.errors import EnqueueRefused

Seconds = float | timedelta
_LONGEST_TIMEOUT_S = 366 * 86400


class _Shared(TypedDict, total=False):
    """Arguments of every enqueue; what isn't given comes from the type's settings."""

    scheduled_at: datetime | None  # with a time zone
    delay: Seconds | None  # from now on, by the database's clock
    queue_name: str | None
    priority: int | None  # higher first
    max_attempts: int | None
    timeout: Seconds | None  # of one attempt
    unique_among: str | None  # 'active' or 'waiting'
    after: Iterable[int] | None  # ids of tasks that must have succeeded first
    after_policy: str | None  # "succeeded" (default), or "over": however they end
    limit_key: str | None
    trace: str | None


class Options(_Shared, total=False):
    """Optional arguments of enqueue and enqueue_in."""

    idempotency_key: str | None  # a second enqueue with the same type and key answers the first id


class ManyOptions(_Shared, total=False):
    """Optional arguments of enqueue_many and enqueue_many_in."""

    idempotency_keys: Sequence[str | None] | None  # one for each payload


_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")


def task_type(name: object) -> str:
    if not isinstance(name, str) or not _TYPE.fullmatch(name):
        hint = "letters, digits and _ . : - , starting with a letter or digit, at most 200"
        raise EnqueueRefused(f"{name!r:.60} isn't a task type", hint, "RQ001")
    return name


def _refusal(name: str, problem: str) -> EnqueueRefused:
    return EnqueueRefused(f"{name} {problem}", None, "RQ003")


def plain_text(name: str, value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _refusal(name, "must be a text without NUL characters")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refusal(name, "has a lone surrogate, which isn't text") from None
    return value


def _integer(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**31:
        raise _refusal(name, f"must be a whole number of 32 bits, not {value!r:.60}")
    return str(int(value))


def seconds(name: str, value: object) -> float:
    found = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise _refusal(name, f"must be seconds or a timedelta, not {value!r:.60}")
    if not math.isfinite(found) or not 0 <= found < 10**10:
        raise _refusal(name, f"must be from 0 to ten billion seconds, not {value!r:.60}")
    return float(found)


def _interval(name: str, value: object) -> str:
    return repr(seconds(name, value))


def _timeout(name: str, value: object) -> str:
    found = seconds(name, value)
    if not 0 < found <= _LONGEST_TIMEOUT_S:
        raise _refusal(name, f"must be longer than nothing and at most 366 days, not {value!r:.60}")
    return repr(found)


def _moment(name: str, value: object) -> str:
    if not isinstance(value, datetime):
        raise _refusal(name, f"must be a datetime, not {value!r:.60}; for a time from now use delay=")
    if value.utcoffset() is None:
        raise _refusal(name, f"{value} has no time zone; write datetime(…, tzinfo=UTC) or use delay=")
    return value.isoformat()


def _ids(name: str, value: object) -> str:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _refusal(name, "must be a list of task ids")
    ids = list(value)
    if not all(isinstance(one, int) and not isinstance(one, bool) and 0 < one < 2**63 for one in ids):
        raise _refusal(name, "must be a list of task ids, which are whole numbers above 0")
    return "{" + ",".join(map(str, ids)) + "}"


def _texts(name: str, value: object) -> list[str | None]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _refusal(name, "must be a list of texts, one for each payload")
    return [None if one is None else plain_text(name, one) for one in value]


_INTERVAL = "make_interval(secs => %s::text::float8)"
_ARGUMENTS: dict[str, tuple[str, Callable[[str, object], object]]] = {
    "scheduled_at": ("scheduled_at => %s::text::timestamptz", _moment),
    "delay": (f"scheduled_at => clock_timestamp() + {_INTERVAL}", _interval),
    "queue_name": ("queue_name => %s::text", plain_text),
    "priority": ("priority => %s::text::int", _integer),
    "idempotency_key": ("idempotency_key => %s::text", plain_text),
    "idempotency_keys": ("idempotency_keys => %s::text[]", _texts),
    "max_attempts": ("max_attempts => %s::text::int", _integer),
    "timeout": (f"timeout => {_INTERVAL}", _timeout),
    "unique_among": ("unique_among => %s::text", plain_text),
    "after": ("after => %s::text::bigint[]", _ids),
    "after_policy": ("after_policy => %s::text", plain_text),
    "limit_key": ("limit_key => %s::text", plain_text),
    "trace": ("trace => %s::text", plain_text),
}


ONE = frozenset(_ARGUMENTS) - {"idempotency_keys"}
MANY = frozenset(_ARGUMENTS) - {"idempotency_key"}


def arguments(options: Mapping[str, object], known: frozenset[str] = ONE) -> tuple[tuple[str, ...], list[object]]:
    """Names of the given options and their values as text; None is as good as not given."""
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            raise TypeError(f"no argument {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
    given = [(name, value) for name, value in options.items() if value is not None]
    names = tuple(name for name, _value in given)
    if "delay" in names and "scheduled_at" in names:
        raise _refusal("delay", "and scheduled_at contradict each other; give one of them")
    return names, [_ARGUMENTS[name][1](name, value) for name, value in given]


@lru_cache(maxsize=256)
def enqueue_sql(names: tuple[str, ...]) -> str:
    return _call("queues.enqueue", "payload => %s::text::jsonb", names)


@lru_cache(maxsize=256)
def enqueue_many_sql(names: tuple[str, ...]) -> str:
    return _call("queues.enqueue_many", "payloads => %s::text[]::jsonb[]", names)


def _call(function: str, payload: str, names: tuple[str, ...]) -> str:
    parts = ["task_type => %s::text", payload, *(_ARGUMENTS[name][0] for name in names)]
    return f"select {function}({', '.join(parts)})"
