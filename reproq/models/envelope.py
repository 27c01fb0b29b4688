"""A child's answer: one line, read with suspicion.

An envelope is the Supervisors' DBFunctionResult. Whatever jsonb would refuse (NUL, lone surrogates, NaN) or a later
reader would choke on (depth, digits) is refused here: one bad line may not spoil the batch of outcomes that it travels
in.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from reproq.models.document import MAX_DEPTH, depth, holds_nul, parse_exactly
from reproq.models.states import CHANNEL_KINDS, FailureKind

_MAX_DELAY_S = 366 * 86400.0
_HEAD = b'{"v":1,"id":'  # how our own child begins
_LONG_NUMBER = re.compile(rb"[0-9]{16}")

Outcome = dict[str, Any]


class BadEnvelope(Exception):
    """The line isn't an envelope for this execution; the message says why."""


def read_envelope(line: bytes, task_id: int, claim_no: int, *, trusted: bool = False) -> Outcome:
    """The line as an outcome for queues.finish. Of a `trusted` child (ours, with a database line of its own) it is
    believed that the outcome is committed, and why a provider failed."""
    envelope = _parse(line)
    if type(envelope) is not dict:
        raise BadEnvelope("it is not a JSON object")
    v, its_id, its_claim = envelope.get("v"), envelope.get("id"), envelope.get("claim_no")
    if its_id != task_id or its_claim != claim_no or v != 1 or not type(its_id) is type(its_claim) is type(v) is int:
        raise BadEnvelope(
            f"it answers v{_number(v)} task {_number(its_id)} claim "
            f"{_number(its_claim)}, asked was v1 task {task_id} claim {claim_no}"
        )
    error = envelope.get("error")
    invalid = envelope.get("validation_failure_message")
    success = envelope.get("success")
    if success is True:
        if error or invalid:
            raise BadEnvelope("it says success and names an error")
        outcome = {"id": task_id, "claim_no": claim_no, "success": True, "payload": envelope.get("payload")}
        if "cpu_s" in envelope or "ran_s" in envelope:
            _measure(envelope, outcome)
        if "noisy" in envelope:
            outcome["noisy"] = envelope["noisy"] is True
        return outcome | _word(envelope) if trusted else outcome
    if success is not False:
        raise BadEnvelope("success is neither true nor false")
    outcome = {"id": task_id, "claim_no": claim_no, "success": False, **_failure(envelope, error, invalid)}
    if "noisy" in envelope:
        outcome["noisy"] = envelope["noisy"] is True
    return outcome | _word(envelope) if trusted else outcome


def task_of(line: bytes) -> tuple[int, int] | None:
    """Id and claim_no of the task that the line is an envelope for, perhaps behind half a line of something else."""
    line = line[max(0, line.find(_HEAD)) :]
    try:
        envelope = _parse(line)
        task = envelope["id"], envelope["claim_no"]
        read_envelope(line, *task)
    except (BadEnvelope, KeyError, TypeError):
        return None
    return task


def is_from(line: bytes, task_id: int, claim_no: int) -> bool:
    """Whether it holds what our own child said of this task, whatever else is in it, or wrong with it."""
    return b'%b%d,"claim_no":%d,' % (_HEAD, task_id, claim_no) in line


def _word(envelope: dict[str, Any]) -> Outcome:
    """What is taken on the word of a child of ours."""
    kind = envelope.get("kind")
    told: Outcome = {"finished": True} if envelope.get("finished") is True else {}
    return told | ({"kind": kind} if kind in CHANNEL_KINDS else {})


def _failure(envelope: dict[str, Any], error: object, invalid: object) -> Outcome:
    snooze = _delay(envelope, "snooze_s")
    if snooze is not None:
        return {"snooze_s": snooze}
    if bool(error) == bool(invalid):
        raise BadEnvelope("it says failure and names " + ("two reasons" if error else "no reason"))
    if not isinstance(error or invalid, str):
        raise BadEnvelope("its reason is not a string")
    detail = envelope.get("error_detail")
    outcome: Outcome = {"kind": FailureKind.VALIDATION if invalid else FailureKind.RAISED, "error": error or invalid}
    if isinstance(detail, dict):
        outcome["error_detail"] = detail
    if envelope.get("final") is True:
        outcome["final"] = True
    _measure(envelope, outcome)
    retry_in = _delay(envelope, "retry_in_s")
    if retry_in is not None:
        outcome["retry_in_s"] = retry_in
    return outcome


def _measure(envelope: dict[str, Any], outcome: Outcome) -> None:
    for measure in ("ran_s", "cpu_s", "max_rss_kb"):
        if isinstance(envelope.get(measure), int | float):
            outcome[measure] = envelope[measure]


def _delay(envelope: dict[str, Any], name: str) -> float | None:
    value = envelope.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_DELAY_S:
        raise BadEnvelope(f"{name} is not a number of seconds between 0 and 366 days")
    return float(value)


def _parse(line: bytes) -> Any:
    try:
        value = orjson.loads(line) if _LONG_NUMBER.search(line) is None else parse_exactly(line)
    except (ValueError, TypeError, RecursionError) as exc:
        raise BadEnvelope(f"it is not JSON: {_short(str(exc))}") from None
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and depth(value) > MAX_DEPTH + 1:  # the envelope is one
        raise BadEnvelope(f"it is nested deeper than {MAX_DEPTH}")
    if b"\\u0000" in line and holds_nul(value):
        raise BadEnvelope("it holds a NUL character")
    return value


def _number(value: object) -> str:
    """Only numbers are repeated: whatever else stands there may be a piece of a payload."""
    if type(value) in (int, float, bool):
        return _short(repr(value))
    return "missing" if value is None else f"({type(value).__name__})"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:80] + "…"
