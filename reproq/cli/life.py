"""The life of one task, from its row and its events, as a value and as a sheet."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from reproq.cli.sheets import cell

WIDTH = 24
TAIL_LINES = 5
_ENDS = ("succeeded", "retried", "failed", "lease_expired", "given_back", "stopped")
_OF_ATTEMPTS = ("claimed", "started", *_ENDS)


@dataclasses.dataclass
class Attempt:
    """One execution. Times are None where nothing tells them."""

    claim_no: int
    attempt: int | None = None
    worker: str | None = None
    began: datetime | None = None
    ended: datetime | None = None
    outcome: str = "running"
    detail: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Life:
    task: dict[str, Any]
    now: datetime
    attempts: list[Attempt]
    happenings: list[dict[str, Any]]  # events that are of the task and of no attempt
    rest: dict[str, Any]

    @classmethod
    def of(cls, document: dict[str, Any]) -> Life:
        task, now = document.pop("task"), _moment(document.pop("now"))
        events = document["events"]
        attempts: dict[int, Attempt] = {}
        for event in events:
            if event["event"] in _OF_ATTEMPTS and event["claim_no"]:
                _add(attempts.setdefault(event["claim_no"], Attempt(event["claim_no"])), event)
        _add_last(attempts, task)
        others = [event for event in events if event["event"] not in _OF_ATTEMPTS]
        return cls(task, now, sorted(attempts.values(), key=lambda each: each.claim_no), others, document)

    def as_document(self) -> dict[str, Any]:
        return {**self.task, "attempts": [dataclasses.asdict(attempt) for attempt in self.attempts], **self.rest}


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _add(attempt: Attempt, event: dict[str, Any]) -> None:
    from datetime import timedelta

    at, detail = _moment(event["created_at"]), event["detail"] or {}
    attempt.attempt = event["attempt"] or attempt.attempt
    attempt.worker = event["worker"] or attempt.worker
    if event["event"] in ("claimed", "started"):
        attempt.began = at
        return
    attempt.ended, attempt.outcome = at, event["event"]
    attempt.detail |= detail
    if detail.get("duration_s") is not None:
        attempt.began = at - timedelta(seconds=detail["duration_s"])


def _add_last(attempts: dict[int, Attempt], task: dict[str, Any]) -> None:
    """The execution that the row itself tells of: one that runs, or that no event was written for."""
    last = attempts.get(task["claim_no"])
    is_told = last is not None and last.ended is not None
    if not task["claimed_at"] or is_told or task["status"] not in ("RUNNING", "SUCCESSFUL", "CANCELLED"):
        return
    last = attempts.setdefault(task["claim_no"], Attempt(task["claim_no"]))
    last.attempt, last.worker = task["attempt_count"], task["worker_id"]
    last.began = last.began or _moment(task["started_at"] or task["claimed_at"])
    if task["completed_at"] and last.began > _moment(task["completed_at"]):  # told by its end, after a cancel
        last.began = _moment(task["claimed_at"])
    if task["leased"]:
        last.outcome = "running" if task["status"] == "RUNNING" else "stopping"
    else:
        last.ended = _moment(task["completed_at"])
        last.outcome = "succeeded" if task["status"] == "SUCCESSFUL" else "cancelled"


def sheet(life: Life) -> Iterator[str]:
    task = life.task
    yield f"task {task['id']}  {task['task_type']}  {_standing(task)}"
    yield from _facts(life)
    yield ""
    born = _moment(task["created_at"])
    end = _moment(task["completed_at"]) if task["completed_at"] and not task["leased"] else life.now
    told = [_moment(event["created_at"]) for event in life.happenings]
    scale = Scale(born, max([end, *told, *(attempt.ended for attempt in life.attempts if attempt.ended)]))
    lines: list[tuple[datetime, list[str]]] = [(born, [scale.point(born) + f"created by {cell(task['created_by'])}"])]
    lines += [(each.began or each.ended or born, list(_attempt(each, scale, life.now))) for each in life.attempts]
    for event in life.happenings:
        at = _moment(event["created_at"])
        if event["event"] != "created":
            lines.append((at, [scale.point(at) + _happening(event)]))
    for _at, text in sorted(lines, key=lambda line: line[0]):
        yield from text
    yield ""


def _standing(task: dict[str, Any]) -> str:
    tries = f"{task['attempt_count']} of {task['max_attempts']} attempts"
    deleted = f", deleted: {cell(task['delete_reason'])}" if task["deleted_at"] else ""
    stopping = " (still stopping)" if task["leased"] and task["status"] == "CANCELLED" else ""
    kind = f", {task['failure_kind']}" if task["failure_kind"] else ""
    return f"{task['status']}{stopping}, {tries}{kind}{deleted}"


def _facts(life: Life) -> Iterator[str]:
    task = life.task
    facts: dict[str, Any] = {"queue": f"{task['queue_name']}, priority {task['priority']}"}
    if task["status"] in ("PENDING", "RETRYING"):
        facts["due"] = task["run_after"]
    facts |= {"key": task["idempotency_key"], "limit": task["limit_key"], "payload": _short(task["payload_json"])}
    if task["status"] == "SUCCESSFUL":
        facts["result"] = _short(task["result_json"])
    facts |= {"error": task["last_error"], "replay of": task["replay_of"], "tells of": task["dead_letter_of"]}
    for name, label in (("waits_for", "waits for"), ("waited_for_by", "awaited by"), ("replays", "replayed as")):
        facts[label] = ", ".join(f"{each['id']} {each['status'] or 'gone'}" for each in life.rest[name]) or None
    for name, value in facts.items():
        if value is not None:
            yield f"  {name:<12}{cell(value)}"


def _short(value: object) -> str:
    text = cell(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"


@dataclasses.dataclass(frozen=True)
class Scale:
    """The task's life as a line of WIDTH characters."""

    born: datetime
    end: datetime

    def point(self, at: datetime) -> str:
        return self.span(at, at, " ")

    def span(self, began: datetime, ended: datetime, mark: str = "#") -> str:
        first, last = self._place(began), self._place(ended)
        line = "".join(mark if mark != " " and first <= place <= last else "." for place in range(WIDTH))
        if mark == " ":
            line = line[:first] + "|" + line[first + 1 :]
        return f"{_elapsed((began - self.born).total_seconds()):>12}  {line}  "

    def _place(self, at: datetime) -> int:
        whole = (self.end - self.born).total_seconds() or 1e-9
        return max(0, min(WIDTH - 1, int(WIDTH * (at - self.born).total_seconds() / whole)))


def _elapsed(seconds: float) -> str:
    if seconds < 120:
        return f"+{seconds:.3f} s"
    hours, rest = divmod(int(seconds), 3600)
    return f"+{hours}:{rest // 60:02}:{rest % 60:02} h"


def _attempt(attempt: Attempt, scale: Scale, now: datetime) -> Iterator[str]:
    ended = attempt.ended or now
    head = scale.span(attempt.began or ended, ended)
    indent = " " * len(head)
    yield head + f"attempt {attempt.attempt or '?'}: {', '.join(_told(attempt, ended))}"
    if attempt.detail.get("error"):
        yield indent + " ".join(cell(attempt.detail["error"]).split())
    output = cell(attempt.detail.get("output") or "").splitlines()
    if len(output) > TAIL_LINES:
        yield indent + f"| … {len(output) - TAIL_LINES} lines more: `reproq tasks logs`"
    for line in output[-TAIL_LINES:]:
        yield f"{indent}| {line}"
    if attempt.detail.get("retry_in_s") is not None:
        yield indent + f"again after {attempt.detail['retry_in_s']:g} s"


def _told(attempt: Attempt, ended: datetime) -> Iterator[str]:
    detail = attempt.detail
    yield str(detail.get("kind") or detail.get("reason") or attempt.outcome.replace("_", " "))
    if attempt.began is not None:
        lasted = "for" if attempt.ended is None else "after"
        yield f"{lasted} {_elapsed((ended - attempt.began).total_seconds())[1:]}"
    if attempt.worker:
        yield f"by {cell(attempt.worker)}"
    if detail.get("child"):
        yield f"child {cell(detail['child'])} (pid {detail.get('pid')})"
    yield from _exit(detail)
    if detail.get("cpu_s") is not None:
        yield f"CPU {detail['cpu_s']:.3f} s"
    if detail.get("max_rss_kb"):
        yield f"{detail['max_rss_kb'] / 1024:.0f} MiB"


def _exit(detail: dict[str, Any]) -> Iterator[str]:
    if detail.get("signal") is not None:
        try:
            yield f"signal {detail['signal']} ({signal.Signals(detail['signal']).name})"
        except ValueError:
            yield f"signal {detail['signal']}"
    elif detail.get("exit_code") is not None:
        yield f"exit status {detail['exit_code']}"


def _happening(event: dict[str, Any]) -> str:
    detail = event["detail"] or {}
    by = f" by {cell(detail['by'])}" if detail.get("by") else ""
    reason = f": {cell(detail['reason'])}" if detail.get("reason") else ""
    if event["event"] == "routed":
        return f"told to task {detail.get('task')}, {cell(detail.get('type'))}"
    if event["event"] == "replayed":
        return f"replayed as task {detail['as']}{by}" if "as" in detail else f"replayed{by}"
    return f"{event['event']}{by}{reason}"
