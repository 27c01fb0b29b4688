"""One process as text: what happened, in the order in which it did, and what is to come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reproq.cli.sheets import as_json_text, cell

if TYPE_CHECKING:
    from reproq.db.processes import Rehearsal, Timeline

TAIL_LINES = 10
# Of a row of the queue, what a supervisor has to do with; --json has all.
_OF_TASKS = ("id", "task_type", "queue_name", "run_after", "max_attempts", "unique_among", "timeout_s", "payload_json")


def sheet(timeline: Timeline) -> Iterator[str]:
    yield f"{timeline.process} {timeline.id}: {_standing(timeline)}"
    yield ""
    yield from _facts(timeline)
    if timeline.tasks:
        yield from ("", "attempts")
    for task in timeline.tasks:
        yield from _task(task)
    if timeline.errors:
        yield from ("", "errors")
    for error in timeline.errors:
        about = " ".join(filter(None, (error["source"], error["function_name"])))
        yield f"  {_clock(error['created_at'])}  task {error['task_id']}  {about}: {_one_line(error['message'])}"
    yield from ("", f"next check: {_next(timeline)}")


def _standing(timeline: Timeline) -> str:
    if timeline.ended is None:
        return "open"
    reason = timeline.ended.get("reason")
    return f"ended, {timeline.ended.get('outcome', 'for good')}" + (f" ({_one_line(reason)})" if reason else "")


def _facts(timeline: Timeline) -> Iterator[str]:
    rows = [("time", "after", "attempt", "fact", "")]
    told = {name: value for name, value in timeline.root.items() if name not in ("created_at", timeline.id_column)}
    began = _made(timeline)
    if began is not None:
        rows.append((_clock(began), _elapsed(began, began), "", "created", _pairs(told)))
    for fact in timeline.facts:
        attempt = "" if fact.attempt is None else str(fact.attempt)
        rows.append((_clock(fact.at), _elapsed(began or fact.at, fact.at), attempt, fact.fact, _pairs(fact.detail)))
    yield from _columns(rows)


def _made(timeline: Timeline) -> datetime | None:
    at = timeline.root.get("created_at")
    return datetime.fromisoformat(at) if isinstance(at, str) else timeline.facts[0].at if timeline.facts else None


def _task(task: dict[str, Any]) -> Iterator[str]:
    outcome = " ".join(filter(None, (task["status"], task["failure_kind"])))
    worker = f"  by {cell(task['worker'])}" if task["worker"] else ""
    yield f"  {task['attempt'] or '?'}  {task['task_type']} task {task['id']}: {outcome}{worker}"
    if task["last_error"]:
        yield f"       {_one_line(task['last_error'])}"
    if task["provider_called_at"]:
        answer = task["provider_answer"]
        told = f"it answered {cell(answer)}" if answer else "no answer is known"
        yield f"       provider called at {_clock(task['provider_called_at'])}, {told}"
    for line in cell(task["output"] or "").splitlines()[-TAIL_LINES:]:
        yield f"     | {line}"


def _next(timeline: Timeline) -> str:
    running = [row for row in timeline.supervisors if row["leased"]]
    waiting = [row for row in timeline.supervisors if not row["leased"]]
    if running:
        return f"its supervisor runs now, as task {running[0]['id']}"
    if waiting:
        row = waiting[0]
        due = row["run_after"] <= timeline.now
        when = "due now" if due else f"in {_span((row['run_after'] - timeline.now).total_seconds())}"
        error = f"; its last run failed: {_one_line(row['last_error'])}" if row["last_error"] else ""
        return f"{when} ({_clock(row['run_after'])}, task {row['id']}){error}"
    if timeline.is_registered:
        return "its supervisor is lost; a worker brings it back within a minute"
    return "none: it has ended" if timeline.ended else "none: no supervisor is registered for it"


def rehearsal_sheet(rehearsal: Rehearsal) -> Iterator[str]:
    failed = rehearsal.error is not None
    yield f"{rehearsal.supervisor} {rehearsal.id}: {'error' if failed else 'answer'}"
    yield f"  {_one_line(rehearsal.error) if failed else as_json_text(rehearsal.answer)}"
    for write in rehearsal.writes:
        yield from ("", f"{write.what} {write.table}")
        for name, value in write.row.items():
            changed = write.before is not None and write.before[name] != value
            if not changed and (value is None or (write.table == "queues.task_runs" and name not in _OF_TASKS)):
                continue
            before = f"   was {_one_line(write.before[name])}" if changed and write.before else ""
            yield f"  {name:<22} {_one_line(value)}{before}"
    if not rehearsal.writes:
        yield from ("", "it would write nothing")
    yield from ("", "rolled back: nothing of this was kept")


def _pairs(fields: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_one_line(value)}" for name, value in fields.items() if value is not None)


def _one_line(value: object) -> str:
    return " ".join(cell(str(value).lower() if isinstance(value, bool) else value).split())


def _columns(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()


def _clock(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + at.strftime("%z")


def _elapsed(began: datetime, at: datetime) -> str:
    return "+" + _span((at - began).total_seconds())


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3f} s"
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02} h"
