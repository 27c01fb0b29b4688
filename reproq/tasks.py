"""Your side of a task: the decorator, what the function gets, and how it says no.

Every child imports this module first, so it imports nothing itself that costs time.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta
    from logging import Logger
    from typing import Any, NoReturn, Protocol, TypeVar

    Function = Callable[..., Any]
    AnyFunction = TypeVar("AnyFunction", bound=Function)
    Duration = float | timedelta

    class Canceller(Protocol):
        def is_cancelled(self, order: dict[str, Any]) -> bool: ...


_NAME_LENGTH = 200
_MOST_S = 366 * 86400.0
_OURS = ("db_function", "email", "sms")
_FIRST = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_REST = _FIRST | frozenset("_.:-")
_COROUTINE, _GENERATOR = 0x80, 0x220  # of a code object's flags
_TAKES = "a task takes (payload) or (payload, ctx)"


class Retry(Exception):
    """Not now: run me again by the type's back-off, or in `in_` seconds. Counts as an attempt."""

    def __init__(self, reason: str = "", *, in_: Duration | None = None) -> None:
        super().__init__(reason)
        self.in_s = None if in_ is None else _seconds("in_", in_, least=0, most=_MOST_S)


class Fail(Exception):
    """Never: fail now, whatever attempts are left."""


class Snooze(Exception):
    """What ctx.snooze() raises: run me again later, and don't count this attempt."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"snoozed for {seconds:g} s")
        self.seconds = seconds


class Context:
    """What a task may know about this attempt of it."""

    __slots__ = ("_began", "_canceller", "_log", "_order")

    def __init__(self, order: dict[str, Any], canceller: Canceller | None = None) -> None:
        self._order = order
        self._canceller = canceller
        self._began = time.monotonic()
        self._log: Logger | None = None

    @classmethod
    def for_test(cls, **fields: Any) -> Context:
        """For a unit test that calls a task function itself: Context.for_test(attempt=2)."""
        order = {"id": 1, "claim_no": 1, "task_type": "test", "queue_name": "default", "attempt": 1, "max_attempts": 3}
        return cls({**order, "deadline_s": None, "idempotency_key": "task-1", **fields})

    @property
    def id(self) -> int:
        return int(self._order["id"])

    @property
    def claim_no(self) -> int:
        return int(self._order["claim_no"])

    @property
    def attempt(self) -> int:
        """1 for the first."""
        return int(self._order["attempt"])

    @property
    def max_attempts(self) -> int:
        return int(self._order["max_attempts"])

    @property
    def task_type(self) -> str:
        return str(self._order["task_type"])

    @property
    def queue_name(self) -> str:
        return str(self._order["queue_name"])

    @property
    def idempotency_key(self) -> str:
        """The same in every attempt of this task: hand it to whoever you call."""
        return str(self._order["idempotency_key"])

    @property
    def deadline(self) -> datetime | None:
        """When this attempt is killed, as an aware time; None: it has no time-out."""
        from datetime import datetime, timedelta

        left = self.remaining()
        return None if left is None else datetime.now().astimezone() + timedelta(seconds=left)

    def remaining(self) -> float | None:
        """Seconds until this attempt is killed; None: it has no time-out."""
        limit = self._order.get("deadline_s")
        return None if limit is None else float(limit) - (time.monotonic() - self._began)

    def cancelled(self) -> bool:
        """Whether somebody cancelled this task. Asks without waiting; cheap enough for every turn of a loop."""
        return self._canceller is not None and self._canceller.is_cancelled(self._order)

    def snooze(self, seconds: Duration) -> NoReturn:
        """Ends this attempt, uncounted, and runs the task again later."""
        raise Snooze(_seconds("seconds", seconds, least=0, most=_MOST_S))

    @property
    def log(self) -> Logger:
        """Its lines reach the worker's log with the task's id."""
        if self._log is None:
            self._log = _logger(self.task_type)
        return self._log


class Task:
    """A registered type: the function, how to call it, its settings."""

    __slots__ = ("_annotation", "function", "is_async", "settings", "takes_context", "type")

    def __init__(self, type_: str, function: Function, settings: dict[str, Any]) -> None:
        if _flags(function) & _GENERATOR:
            raise TypeError(f"{_where(function)} is a generator (it has a yield), and nobody would run its body")
        self.type = type_
        self.function = function
        self.settings = settings
        self.takes_context, self._annotation = _signature(function)
        self.is_async = _is_async(function)

    def model(self) -> Any:
        """The pydantic model of the payload, if it is annotated with one. Known only when its module is loaded."""
        annotation = self._annotation
        if isinstance(annotation, str):
            annotation = _evaluate(annotation, self.function)
        return _model_in(annotation)

    def source(self) -> tuple[Any, ...]:
        code = getattr(self.function, "__code__", None)
        name = getattr(self.function, "__qualname__", repr(self.function))
        return (name, code.co_filename, code.co_firstlineno) if code else (name, id(self.function))


registry: dict[str, Task] = {}


def task(
    type_: str,
    *,
    max_attempts: int | None = None,
    timeout: Duration | None = None,
    lease: Duration | None = None,
    backoff_base: Duration | None = None,
    backoff_cap: Duration | None = None,
    dead_letter_type: str | None = None,
    contain: bool = False,
) -> Callable[[AnyFunction], AnyFunction]:
    """Registers a function, sync or async, for a type. It stays callable as itself.

    `contain`: what the task leaves running is killed when it ends, and not only when its child does.
    """
    if callable(type_):
        raise TypeError('write @task("some.type"), with the type\'s name')
    if check_type_name(type_) in _OURS:
        raise ValueError(f"{type_!r} is a type of Reproq's own, which never reaches an app: give yours another name")
    durations = {"timeout": timeout, "lease": lease, "backoff_base": backoff_base, "backoff_cap": backoff_cap}
    settings: dict[str, Any] = {k: _seconds(k, v) for k, v in durations.items() if v is not None}
    if max_attempts is not None:
        settings["max_attempts"] = _attempts(max_attempts)
    if dead_letter_type is not None:
        if check_type_name(dead_letter_type) in (type_, *_OURS):
            raise ValueError(
                f"{type_!r} can't tell {dead_letter_type!r} of its dead letters: name another type of yours"
            )
        settings["dead_letter_type"] = dead_letter_type
    if contain:
        settings["contain"] = True

    def decorate(function: AnyFunction) -> AnyFunction:
        _register(Task(type_, function, settings))
        return function

    return decorate


def check_type_name(name: str) -> str:
    """The same rule as the database's: ^[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}$"""
    if not isinstance(name, str):
        raise TypeError(f"a task type is a string, not {type(name).__name__}")
    if not name or len(name) > _NAME_LENGTH or name[0] not in _FIRST or not _REST.issuperset(name):
        raise ValueError(
            f"bad task type {name[:60]!r}: 1 to {_NAME_LENGTH} letters, digits and _ . : - are allowed, "
            "the first a letter or digit (example: billing.invoice_charge.v1)"
        )
    return name


def _register(new: Task) -> None:
    old = registry.get(new.type)
    if old is not None and old.source() != new.source():
        raise ValueError(
            f"task type {new.type!r} is registered twice: by {_where(old.function)} and by {_where(new.function)}; "
            "give one of them another name"
        )
    registry[new.type] = new


def _where(function: Function) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def _seconds(name: str, value: Duration, least: float = 0.001, most: float = 1e10) -> float:
    total = getattr(value, "total_seconds", None)
    seconds = total() if total else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not least <= seconds <= most:
        raise ValueError(f"{name} is a number of seconds or a timedelta, from {least:g} to {most:.0f} s, not {value!r}")
    return float(seconds)


def _attempts(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"max_attempts is a whole number of 1 or more, not {value!r}")
    return value


def _signature(function: Function) -> tuple[bool, Any]:
    """Whether it takes a context, and the payload's annotation. `inspect` would cost every child 10 ms."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__") or hasattr(function, "__self__"):
        return _signature_by_inspect(function)
    count = code.co_argcount
    required = count - len(getattr(function, "__defaults__", None) or ())
    _check_count(
        function, count, required, code.co_kwonlyargcount - len(getattr(function, "__kwdefaults__", None) or ())
    )
    names = code.co_varnames[:count]
    return _wants_context(names, required), function.__annotations__.get(names[0])


def _signature_by_inspect(function: Function) -> tuple[bool, Any]:
    import inspect

    found = list(inspect.signature(function).parameters.values())
    plain = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keyword = sum(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in found)
    required = sum(p.default is p.empty for p in plain)
    _check_count(function, len(plain), required, keyword)
    annotation = plain[0].annotation
    return _wants_context(tuple(p.name for p in plain), required), None if annotation is plain[0].empty else annotation


def _check_count(function: Function, count: int, required: int, keyword_only: int) -> None:
    if count < 1 or required > 2 or keyword_only:
        raise TypeError(f"{_where(function)}: {_TAKES}")


def _wants_context(names: tuple[str, ...], required: int) -> bool:
    return len(names) > 1 and (required > 1 or names[1] in ("ctx", "context"))


def _is_async(function: Function) -> bool:
    return bool(_flags(function) & _COROUTINE)


def _flags(function: Function) -> int:
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return int(code.co_flags) if code else 0


def _evaluate(annotation: str, function: Function) -> Any:
    """For modules with `from __future__ import annotations`."""
    names = getattr(function, "__globals__", None) or vars(sys.modules[function.__module__])
    try:
        return eval(annotation, names)  # noqa: S307  (the text is the module's own source)
    except Exception:  # noqa: BLE001  (a name that exists for type checkers only)
        return None


def _model_in(annotation: Any) -> Any:
    """Also in Annotated[Model, …] and Model | None."""
    if hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    members = [each for each in getattr(annotation, "__args__", ()) if each is not type(None)]
    if not isinstance(annotation, type) and len(members) == 1:
        return _model_in(members[0])
    return annotation if isinstance(annotation, type) and hasattr(annotation, "model_validate_json") else None


def _logger(task_type: str) -> Logger:
    import logging

    logger = logging.getLogger(f"reproq.task.{task_type}")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        root = logging.getLogger("reproq.task")
        root.addHandler(handler)
        root.setLevel(logging.INFO)
    return logger
