"""`reproq replay`: the same row again, or a copy beside it and what is different."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from reproq.cli.connection import connected
from reproq.cli.options import settings_options
from reproq.cli.run import CommandFailed
from reproq.cli.sheets import as_json_text, cell
from reproq.cli.task_orders import IDS, client_of, each
from reproq.cli.terminal import ask, spinner
from reproq.client import TaskStatus, UnknownTask
from reproq.config import SettingsError, seconds

MOST_DIFFERENCES = 50


@click.command("replay")
@IDS
@settings_options("database_url")
@click.option("--compare", is_flag=True, help="Run the same work as a task of its own; show what is different.")
@click.option("--timeout", metavar="TIME", help="With --compare: wait at most this long.")
@click.option("--yes", is_flag=True, help="With --compare: don't ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each ID, or of the comparison.")
def command(ids: tuple[int, ...], compare: bool, **flags: Any) -> None:
    """Open tasks that are over once more: the same task with its history, and more attempts.

    With --compare the task stays as it is. A copy of it runs, without its key, and the two results are compared. Its
    effects repeat, so it asks first. Many tasks by a filter: `reproq dead-letter replay`.

    \b
    reproq replay 7 8
    reproq replay 7 --compare
    reproq replay 7 --compare --yes --timeout 5m --json | jq .differences

    \b
    Exit status with --compare: 0 the same · 1 different, or not over in time
    """
    if compare:
        if len(ids) != 1:
            raise click.UsageError("--compare takes one id")
        _compare(ids[0], flags)
        return
    if flags["timeout"]:
        raise click.UsageError("--timeout goes with --compare")
    with client_of(flags) as client:
        each(ids, client.replay, ["replayed"], flags["as_json"])


def _compare(task_id: int, flags: dict[str, Any]) -> None:
    limit = _seconds(flags.pop("timeout"))
    as_json, yes = flags.pop("as_json"), flags.pop("yes")
    with client_of(flags) as client:
        first = client.status(task_id)
        ask(f"Task {task_id}, {first.task_type}, will run a second time, and what it does outside repeats. Go on?", yes)
        copy_id = _copy(task_id, flags)
        click.echo(f"running as task {copy_id}", err=True)
        try:
            with spinner(f"waiting for task {copy_id}"):
                second = client.wait(copy_id, limit)
        except TimeoutError as late:
            raise CommandFailed(f"{late}; compare by hand with `reproq tasks show {task_id} {copy_id}`") from None
    found = list(differences_of(first, second))
    if as_json:
        click.echo(as_json_text({"id": task_id, "replay": copy_id, "same": not found, "differences": found}))
    else:
        click.echo("\n".join(_sheet(first, second, found)))
    if found:
        raise CommandFailed(f"tasks {task_id} and {copy_id} ended differently")


def _copy(task_id: int, flags: dict[str, Any]) -> int:
    from reproq.queue import many, run

    with connected(dict(flags), "reproq replay") as connection:
        copy_id = run(connection, many.replay_as_new(task_id))
    if copy_id is None:
        raise UnknownTask(f"no task {task_id}", "it was never stored, was purged, or belongs to another login")
    return int(copy_id)


def _seconds(timeout: str | None) -> float | None:
    try:
        return None if timeout is None else seconds(timeout)
    except ValueError as problem:
        raise SettingsError(f"--timeout: {problem}") from None


Difference = dict[str, Any]
_MISSING = object()


def differences_of(first: TaskStatus, second: TaskStatus) -> Iterator[Difference]:
    """Each with its place, what `was` there and what `is`; where one has nothing, its word is missing."""
    if first.status != second.status:
        yield _difference("status", first.status, second.status)
    if first.status == second.status == "SUCCESSFUL":
        yield from _between("result", first.result_json, second.result_json)
        return
    for name in ("failure_kind", "last_error"):
        if getattr(first, name) != getattr(second, name):
            yield _difference(name, getattr(first, name), getattr(second, name))


def _between(place: str, one: Any, other: Any) -> Iterator[Difference]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            yield from _between(f"{place}.{key}", one.get(key, _MISSING), other.get(key, _MISSING))
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            sides = (side[index] if index < len(side) else _MISSING for side in (one, other))
            yield from _between(f"{place}[{index}]", *sides)
    elif type(one) is not type(other) or one != other:  # 1 and true are equal to Python
        yield _difference(place, one, other)


def _difference(place: str, one: Any, other: Any) -> Difference:
    sides = {"was": one, "is": other}
    return {"at": place, **{name: value for name, value in sides.items() if value is not _MISSING}}


def _sheet(first: TaskStatus, second: TaskStatus, found: list[Difference]) -> Iterator[str]:
    for status, name in (first, "first"), (second, "again"):
        yield f"{name}  task {status.id}: {status.status} after {_lasted(status)}"
    if not found:
        yield "the same result"
        return
    yield f"{len(found)} difference{'s' if len(found) > 1 else ''}"
    for each_one in found[:MOST_DIFFERENCES]:
        yield f"  {cell(each_one['at'])}"
        for sign, name in ("-", "was"), ("+", "is"):
            if name in each_one:
                yield f"    {sign} {cell(as_json_text(each_one[name]))}"
    if len(found) > MOST_DIFFERENCES:
        yield f"  … {len(found) - MOST_DIFFERENCES} more: --json has all"


def _lasted(status: TaskStatus) -> str:
    if status.started_at is None or status.completed_at is None:
        return "an unknown time"
    return f"{(status.completed_at - status.started_at).total_seconds():.3f} s"
