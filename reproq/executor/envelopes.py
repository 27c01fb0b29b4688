"""What a child answers: one line of JSON that PostgreSQL will take, or a clear failure instead of it.

The encoder is the standard library's C one, without its `json` package around it: that would cost every child 5 ms of
start for `re`. It leaves text as it is (no \\u escapes), so a lone surrogate shows when the line becomes UTF-8.
"""

from __future__ import annotations

from _json import encode_basestring, make_encoder, make_scanner

from reproq.tasks import Fail, Retry, Snooze

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, NoReturn

    Order = dict[str, Any]

MAX_DEPTH = 64
MAX_DIGITS = 1000
_SHORT_BITS = 3321  # what has no more has no more digits either
_MACHINERY = ("reproq.executor", "asyncio")
_MAX_ERROR = 4_000
_MAX_TRACEBACK = 32_000


class InvalidPayload(Exception):
    """The payload doesn't fit the task's model: no attempt will change that."""


class BadResult(Exception):
    """The task ran, but its result can't be stored as JSON."""


class NoHandlerRegistered(Fail):
    """This child knows no such type."""


class _Scanning:
    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} isn't JSON")


def _plain(value: Any) -> Any:
    """What the encoder doesn't know."""
    dump = getattr(value, "model_dump", None)
    if hasattr(value, "__await__"):
        if hasattr(value, "close"):
            value.close()  # or Python warns that it was never awaited
        raise TypeError(
            f"a {type(value).__name__} isn't JSON: nobody awaited it. A decorator around an async task must be async"
            " itself: async def wrapper(*args): return await function(*args)"
        )
    if dump is None:
        raise TypeError(f"a {type(value).__name__} isn't JSON: return dict, list, str, int, float, bool or None")
    return dump(mode="json")


_scan = make_scanner(_Scanning)  # type: ignore[arg-type]  # it only reads the five attributes
# No marker dict against cycles: one that is kept would be wrong after an error. A cycle ends as RecursionError.
_encode = make_encoder(None, _plain, encode_basestring, None, ":", ",", False, False, False)


def parse(line: bytes) -> Order:
    order: Order = _scan(line.decode(), 0)[0]
    return order


def to_json(value: Any) -> str:
    return "".join(_encode(value, 0))


def success(order: Order, result: Any, usage: str = "") -> bytes:
    head = f'{{"v":1,"id":{order["id"]},"claim_no":{order["claim_no"]},"success":true{usage}'
    if result is None:
        return (head + "}\n").encode()
    return f'{head},"payload":{_storable(result)}}}\n'.encode()


def _storable(result: Any) -> str:
    try:
        text = to_json(result)
        if len(text) > MAX_DEPTH:
            _check_long(text, result)
        if "\\u0000" in text:
            _check_nul(result)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadResult(_why(error)) from error
    return text


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "the result has text with a lone surrogate (half of a character), which isn't valid Unicode"
    if isinstance(error, RecursionError):
        return f"the result is nested deeper than {MAX_DEPTH} or contains itself"
    if "Out of range float" in str(error):
        return "the result has a NaN or an infinity, which JSON doesn't know"
    return f"the result can't be stored as JSON: {error}"


def _check_long(text: str, result: Any) -> None:
    """Short of a walk where the text shows that none is needed."""
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(result) > MAX_DEPTH:
        raise RecursionError
    if len(text) > MAX_DIGITS and _has_long_number(result):
        raise ValueError(f"it has a number of more than {MAX_DIGITS} digits")


def _depth(value: Any) -> int:
    level, found = [value], 0
    while level and found <= MAX_DEPTH + 1:
        level = [each for value in level for each in _inside(value)]
        found += 1
    return found - 1


def _has_long_number(value: Any) -> bool:
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, int) and value.bit_length() > _SHORT_BITS and abs(value) >= 10**MAX_DIGITS:
            return True
        todo.extend(_inside(value))
    return False


def _check_nul(result: Any) -> None:
    todo = [result]
    while todo:
        value = todo.pop()
        if isinstance(value, str) and "\0" in value:
            raise ValueError("it has text with a NUL character, which PostgreSQL can't store")
        if isinstance(value, dict):
            todo.extend(value)
        todo.extend(_inside(value))


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    return (_plain(value),) if hasattr(value, "model_dump") else ()


def noisy(line: bytes) -> bytes:
    """Something that an earlier task, or this one, has left behind prints without end: nobody should have to wait for
    it with each task."""
    return line.removesuffix(b"}\n") + b',"noisy":true}\n'


def no_handler(order: Order) -> NoReturn:
    raise NoHandlerRegistered(f"no handler is registered for {order['task_type']!r} in this child")


def failure(order: Order, error: BaseException, usage: str = "") -> bytes:
    try:
        return _failure(order, error, usage)
    except BaseException:  # noqa: BLE001  (an exception with a broken __str__, or no memory)
        return _last_words(order, error)


def _failure(order: Order, error: BaseException, usage: str) -> bytes:
    fields: Order = {"v": 1, "id": order["id"], "claim_no": order["claim_no"], "success": False}
    if isinstance(error, InvalidPayload):
        fields["validation_failure_message"] = _clean(str(error), _MAX_ERROR)
    else:
        fields["error"] = _describe(error)
    if isinstance(error, Retry) and error.in_s is not None:
        fields["retry_in_s"] = error.in_s
    elif isinstance(error, Fail):
        fields["final"] = True
    elif isinstance(error, Snooze):
        fields["snooze_s"] = error.seconds
    if not isinstance(error, InvalidPayload | Snooze):
        fields["error_detail"] = {"type": _type_name(error), "traceback": _traceback(error)}
    return f"{to_json(fields)[:-1]}{usage}}}\n".encode()


def _last_words(order: Order, error: BaseException) -> bytes:
    name = _clean(type(error).__name__, 200)
    fields = {"v": 1, "id": order["id"], "claim_no": order["claim_no"], "success": False, "error": name}
    return f"{to_json(fields)}\n".encode()


def _describe(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, BadResult) or (text and isinstance(error, Fail | Retry | Snooze)):
        return _clean(text, _MAX_ERROR)
    return _clean(f"{type(error).__name__}: {text}" if text else type(error).__name__, _MAX_ERROR)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _traceback(error: BaseException) -> str:
    """From the task's own frame on, without local variables: they may hold secrets."""
    import traceback

    text = "".join(traceback.format_exception(type(error), error, _own_frames(error.__traceback__)))
    return _clean(text if len(text) <= _MAX_TRACEBACK else "…" + text[-_MAX_TRACEBACK:], _MAX_TRACEBACK + 1)


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_globals.get("__package__") in _MACHINERY:
        trace = trace.tb_next
    return trace


def _clean(text: str, limit: int) -> str:
    """Fit for jsonb: no NUL, no lone surrogate."""
    short = text if len(text) <= limit else text[:limit] + "…"
    return short.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
