"""Logs of parents: JSON lines on stderr, one human-readable line each on a terminal.

Logging must be cheap and must never raise: a full disk or a closed stderr may not stop a worker. Redaction works on the
finished line, as the last step before it is written, so that tracebacks, nested fields and third-party loggers pass
through it as well. A payload is dropped here unless the setting allows it, whoever put it into the line.
"""

from __future__ import annotations

import json
import logging
import re
import select
import sys
import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from traceback import format_exception
from typing import Any, Final, TextIO
from urllib.parse import quote

from pythonjsonlogger.core import RESERVED_ATTRS, BaseJsonFormatter

logger: Final = logging.getLogger("reproq")

HIDDEN = "***"
_READER_MS = 1000


class Event:
    """Names that alerts and dashboards may rely on. A name never changes its meaning."""

    WORKER_STARTED: Final = "worker_started"
    METRICS_SERVED: Final = "metrics_served"
    WORKER_STOPPED: Final = "worker_stopped"
    DRAIN_STARTED: Final = "drain_started"
    DRAIN_FORCED: Final = "drain_forced"
    EMBEDDED_RESTARTED: Final = "embedded_restarted"
    DATABASE_LATE: Final = "database_late"
    DATABASE_LOST: Final = "database_lost"
    DATABASE_BACK: Final = "database_back"
    DATABASE_ERROR: Final = "database_error"
    MIGRATED: Final = "migrated"
    LOGIN_TOO_MIGHTY: Final = "login_too_mighty"
    TASKS_RUN_AS_ROOT: Final = "tasks_run_as_root"
    CHILD_READY: Final = "child_ready"
    CHILD_BOOT_SLOW: Final = "child_boot_slow"
    FORK_REFUSED: Final = "fork_refused"
    CHILD_BOOT_FAILED: Final = "child_boot_failed"
    CHILD_DIED: Final = "child_died"
    CHILD_RECYCLED: Final = "child_recycled"
    CHILDREN_IMPOSSIBLE: Final = "children_impossible"
    GUARD_DIED: Final = "guard_died"
    TASK_RETRIED: Final = "task_retried"
    TASK_FAILED: Final = "task_failed"
    TASK_TIMED_OUT: Final = "task_timed_out"
    TASK_CANCELLED: Final = "task_cancelled"
    TASK_GIVEN_BACK: Final = "task_given_back"
    TASK_OUTPUT: Final = "task_output"
    BAD_ENVELOPE: Final = "bad_envelope"
    LEASE_LOST: Final = "lease_lost"
    RESULT_DROPPED: Final = "result_dropped"
    CLAIM_FAILED: Final = "claim_failed"
    CLAIM_INDEX_BLOATED: Final = "claim_index_bloated"
    FINISH_REPEATED: Final = "finish_repeated"
    HEARTBEAT_LATE: Final = "heartbeat_late"
    WOKEN: Final = "woken"
    LEADING: Final = "leading"
    HOUSE_KEPT: Final = "house_kept"
    NOBODY_SERVES: Final = "nobody_serves"
    GATEWAY_STARTED: Final = "gateway_started"
    GATEWAY_STOPPED: Final = "gateway_stopped"
    OPEN_FILES_SHORT: Final = "open_files_short"
    HTTP_REQUEST: Final = "http_request"
    TOKENS_REFUSED: Final = "tokens_refused"
    DISPATCHER_STARTED: Final = "dispatcher_started"
    DISPATCHER_STOPPED: Final = "dispatcher_stopped"
    DELIVERY_FAILED: Final = "delivery_failed"
    DELIVERY_PARKED: Final = "delivery_parked"
    DELIVERY_LOST: Final = "delivery_lost"
    SINK_UNUSABLE: Final = "sink_unusable"
    SINK_USABLE: Final = "sink_usable"
    SINK_GONE: Final = "sink_gone"
    LOG_DROPPED: Final = "log_dropped"
    INTERNAL_ERROR: Final = "internal_error"


_PAYLOAD_FIELDS = frozenset({"payload", "payload_json", "result", "result_json"})
_URL_PASSWORD = re.compile(r"(://[^\s/@:\"']*:)[^\s/\"']*@")
_WORD_PASSWORD = re.compile(r"((?:password|ticket|passwd)=)(?:'(?:[^'\\]|\\++.)*+'|'?[^\s&\"'\\]+)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BREAKS = re.compile(r"\s*\n\s*")


class Redactor:
    """Known secrets in every spelling a line can have them in, and passwords by the look of what is around them."""

    def __init__(self) -> None:
        self._spellings: set[str] = set()
        self._known: re.Pattern[str] | None = None

    def hide(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            if len(secret) >= 5:  # shorter ones would blank out ordinary words; the patterns below still catch them
                self._spellings |= _spellings(secret)
        longest_first = sorted(self._spellings, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, line: str) -> str:
        if self._known is not None:
            line = self._known.sub(HIDDEN, line)
        if "://" in line:
            line = _URL_PASSWORD.sub(rf"\g<1>{HIDDEN}@", line)
        if "=" in line:
            line = _WORD_PASSWORD.sub(rf"\g<1>{HIDDEN}", line)
        return line


def _spellings(secret: str) -> set[str]:
    """As it is, percent-encoded, and escaped once or twice: a repr in a message, JSON in JSON."""
    plain = {secret, quote(secret, safe=""), quote(secret)}
    once = {escaped for text in plain for escaped in _escaped(text)}
    return plain | once | {escaped for text in once for escaped in _escaped(text)}


def _escaped(text: str) -> set[str]:
    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}


_redactor = Redactor()
_fields: dict[str, object] = {}


def hide(secrets: Iterable[str]) -> None:
    """From now on no line holds any of these."""
    _redactor.hide(secrets)


def redact(text: str) -> str:
    """For text that reaches people by another way than a log line: an error on stderr."""
    return _redactor(text)


def bind(**fields: object) -> None:
    """Fields of every line from here on: worker_id."""
    _fields.update(fields)


def say(event: str, message: str, level: int = logging.INFO, **fields: object) -> None:
    """One line with a stable event name. Fields are plain values: task_id, task_type, attempt, …"""
    if logger.isEnabledFor(level):
        logger.log(level, "%s", message, extra={"event": event, "fields": fields}, stacklevel=2)


def setup(
    level: str = "info",
    stream: TextIO | None = None,
    *,
    payloads: bool = False,
    secrets: Iterable[str] = (),
    human: bool | None = None,
) -> None:
    """Log to `stream` (stderr). JSON lines, or for people when it is a terminal."""
    hide(secrets)
    stream = sys.stderr if stream is None else stream
    human = _is_terminal(stream) if human is None else human
    handler = SafeHandler(stream)
    handler.setFormatter(HumanFormatter(payloads) if human else JsonFormatter(payloads))
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, SafeHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    logger.setLevel(level.upper())


def catch_threads() -> None:
    """A thread that dies of a bug is a log line too, redacted, and not a bare traceback on stderr."""
    threading.excepthook = _say_thread_died


def _say_thread_died(died: threading.ExceptHookArgs) -> None:
    if died.exc_value is not None and not issubclass(died.exc_type, SystemExit):
        name = died.thread.name if died.thread else "?"
        traceback = "".join(format_exception(died.exc_value))
        say(Event.INTERNAL_ERROR, f"thread {name} died: {died.exc_value!r}", logging.CRITICAL, traceback=traceback)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


class SafeHandler(logging.StreamHandler[TextIO]):
    """Redacts the finished line; swallows every error of writing it. A reader that doesn't read costs lines, not work:
    a worker that waits for its log would hold its leases and do nothing."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._patience_ms = _READER_MS
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        if not self._has_room():
            self._dropped += 1
            self._patience_ms = 0
            return
        self._patience_ms = _READER_MS
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            super().emit(_about(dropped))
        super().emit(record)

    def _has_room(self) -> bool:
        """A pipe is called writable as long as a page fits into it; longer lines are rare."""
        try:
            poll = select.poll()
            poll.register(self.stream, select.POLLOUT)
            return bool(poll.poll(self._patience_ms))
        except (OSError, ValueError, TypeError, AttributeError):  # a stream without a descriptor
            return True

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))

    def handleError(self, record: logging.LogRecord) -> None:
        """The line is lost: there is nobody left to tell."""


def _about(dropped: int) -> logging.LogRecord:
    text = f"{dropped} log lines were dropped: nobody read them"
    line = logging.LogRecord(logger.name, logging.WARNING, __file__, 0, text, None, None)
    line.__dict__["event"] = Event.LOG_DROPPED
    return line


def collected(record: logging.LogRecord, payloads: bool) -> dict[str, Any]:
    """The fields of a line: bound ones, the call's own, and `extra` of third parties."""
    fields: dict[str, Any] = dict(_fields)
    own = record.__dict__.get("fields")
    if isinstance(own, Mapping):
        fields.update(own)
    fields.update((name, value) for name, value in record.__dict__.items() if name not in _STANDARD)
    return {name: value for name, value in fields.items() if payloads or name not in _PAYLOAD_FIELDS}


_STANDARD = frozenset({*RESERVED_ATTRS, "message", "asctime", "event", "fields"})


class JsonFormatter(BaseJsonFormatter):
    def __init__(self, payloads: bool) -> None:
        super().__init__()
        self._payloads = payloads

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": _timestamp(record),
            "level": record.levelname.lower(),
            "event": record.__dict__.get("event", "log"),
            "message": record.getMessage(),
        }
        if record.name != logger.name:
            line["logger"] = record.name
        line |= collected(record, self._payloads)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return self.jsonify_log_record(line)

    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        try:
            return _dumps(log_data)
        except (TypeError, ValueError, RecursionError):  # orjson refuses big integers, lone surrogates, depth
            return json.dumps(_flat(log_data), default=_safe_text, ensure_ascii=True)


def _dumps(line: dict[str, Any]) -> str:
    import orjson

    return orjson.dumps(line, default=_safe_text, option=orjson.OPT_NON_STR_KEYS).decode()


def _flat(line: dict[str, Any]) -> dict[str, Any]:
    scalar = (str, int, float, bool, type(None))
    return {str(name): value if isinstance(value, scalar) else _safe_text(value) for name, value in line.items()}


def _safe_text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a __str__ of anybody's may do anything
        return f"<{type(value).__name__}>"


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class HumanFormatter(logging.Formatter):
    """`10:09:55 warning  child died  task_id=7 signal=9`; only a traceback takes more lines."""

    def __init__(self, payloads: bool) -> None:
        super().__init__()
        self._payloads = payloads

    def format(self, record: logging.LogRecord) -> str:
        clock = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        fields = collected(record, self._payloads)
        fields.pop("worker_id", None)
        traceback = fields.pop("traceback", None) or (self.formatException(record.exc_info) if record.exc_info else "")
        shown = "  ".join(f"{name}={_one_line(value)}" for name, value in fields.items() if value is not None)
        line = f"{clock} {record.levelname.lower():<7} {_one_line(record.getMessage())}"
        return line + (f"  {shown}" if shown else "") + _indented(_safe_text(traceback))


def _one_line(value: object) -> str:
    return _CONTROL.sub("?", _BREAKS.sub(" ⏎ ", _safe_text(value)))  # a task's output may not move the cursor


def _indented(traceback: str) -> str:
    return "".join(f"\n    {_CONTROL.sub('?', line)}" for line in traceback.splitlines())
