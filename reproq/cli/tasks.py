"""`reproq tasks show | list | wait | logs`; what changes tasks is in task_orders."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import click

from reproq.cli import exits
from reproq.cli.connection import connected, seeing
from reproq.cli.life import Life, sheet
from reproq.cli.options import database_address, settings_options
from reproq.cli.run import CommandFailed
from reproq.cli.sheets import as_json_text, cell, show_table
from reproq.cli.task_orders import IDS, cancel, delete, replay
from reproq.cli.terminal import spinner
from reproq.client import Client, TaskStatus, UnknownTask
from reproq.config import SettingsError, seconds

STATES = ["PENDING", "RUNNING", "RETRYING", "SUCCESSFUL", "FAILED", "CANCELLED"]


@click.group("tasks")
def command() -> None:
    """Look at tasks, wait for them, cancel, delete, replay.

    \b
    reproq tasks show 7
    reproq tasks list --status FAILED --type shop.
    reproq tasks wait 7 8 --timeout 5m
    reproq tasks cancel 7 8 --reason "customer left"
    reproq tasks replay 7
    """


for order in (cancel, delete, replay):
    command.add_command(order)


@command.command("show")
@IDS
@settings_options("database_url")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def show(ids: tuple[int, ...], as_json: bool, **flags: Any) -> None:
    """The life of tasks: how they stand, and each attempt with its worker, its end, its output, memory and CPU time.

    A queue with `reproq queues audit NAME all` tells of the ordinary steps too.

    \b
    reproq tasks show 7
    reproq tasks show 7 8 9 --json | jq .status
    reproq tasks show 7 --json | jq '.attempts[] | {attempt, outcome, worker}'
    """
    for life in _lives(ids, flags):
        click.echo(as_json_text(life.as_document()) if as_json else "\n".join(sheet(life)))


def _lives(ids: tuple[int, ...], flags: dict[str, Any]) -> Iterator[Life]:
    from reproq.queue import many, run

    with connected(flags, "reproq tasks") as connection:
        for task_id in ids:
            document = run(connection, many.task_life(task_id))
            if document is None:
                raise UnknownTask(f"no task {task_id}", "it was never stored, was purged, or belongs to another login")
            yield Life.of(document)


@command.command("list")
@settings_options("database_url")
@click.option("--status", type=click.Choice(STATES, case_sensitive=False), help="Only tasks of this status.")
@click.option("--type", "prefix", metavar="PREFIX", default="", help="Only types that start with this.")
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_(status: str | None, prefix: str, queue: str | None, limit: int, as_json: bool, **flags: Any) -> None:
    """The newest tasks first. Needs a login that may see all tasks: the owner or an administrator.

    \b
    reproq tasks list
    reproq tasks list --status FAILED --type shop. --limit 100
    reproq tasks list --json | jq -r .task_type | sort | uniq -c
    """
    from reproq.db.inspection import newest_tasks

    with seeing(flags, "reproq tasks", "all tasks") as connection:
        rows = newest_tasks(connection, status=status and status.upper(), prefix=prefix, queue=queue, limit=limit)
    if as_json:
        for row in rows:
            click.echo(as_json_text(row))
    else:
        show_table(rows, "no tasks")


@command.command("wait")
@IDS
@settings_options("database_url")
@click.option("--timeout", metavar="TIME", help="Wait at most this long for all of them, e.g. 90s, 2h.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def wait(ids: tuple[int, ...], timeout: str | None, as_json: bool, **flags: Any) -> int:
    """Wait until tasks are over; a line for each.

    \b
    reproq tasks wait 7 && echo paid
    reproq tasks wait 7 8 9 --timeout 5m

    \b
    Exit status: 0 all succeeded · 1 one failed or is unknown · 4 cancelled
    124 the time is over
    """
    until = _deadline(timeout)
    worst = exits.DONE
    with Client(database_address(flags), name="reproq tasks") as client, spinner(f"waiting for {len(ids)}"):
        for task_id in ids:
            left = None if until is None else max(0.0, until - time.monotonic())
            try:
                status = client.wait(task_id, left)
            except TimeoutError as late:
                click.echo(f"reproq: {late}", err=True)
                return exits.LATE
            except UnknownTask:
                click.echo(as_json_text({"id": task_id, "status": None}) if as_json else f"{task_id} unknown")
                worst = exits.FAILED
                continue
            click.echo(as_json_text(dataclasses.asdict(status)) if as_json else _ending(status))
            worst = _worse(worst, status.status)
    return worst


def _deadline(timeout: str | None) -> float | None:
    try:
        return None if timeout is None else time.monotonic() + seconds(timeout)
    except ValueError as problem:
        raise SettingsError(f"--timeout: {problem}") from None


def _worse(worst: int, status: str) -> int:
    if status == "FAILED" or worst == exits.FAILED:
        return exits.FAILED
    return exits.CANCELLED if status == "CANCELLED" else worst


def _ending(status: TaskStatus) -> str:
    why = ": ".join(filter(None, (status.failure_kind, status.last_error)))
    return f"{status.id} {status.status}" + (f" {' '.join(cell(why).split())}" if why else "")


@command.command("logs")
@IDS
@settings_options("database_url")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for each attempt.")
def logs(ids: tuple[int, ...], attempt: int | None, as_json: bool, **flags: Any) -> None:
    """What the attempts of tasks printed: the last 64 KiB of each that failed or was stopped.

    What the others printed is in the worker's log only.

    \b
    reproq tasks logs 7
    reproq tasks logs 7 --attempt 2
    """
    found = False
    for life in _lives(ids, flags):
        for each in life.attempts:
            output = each.detail.get("output")
            if not output or attempt not in (None, each.attempt):
                continue
            found = True
            about = {"id": life.task["id"], "attempt": each.attempt, "outcome": each.outcome}
            if as_json:
                click.echo(as_json_text(about | {"output": output}))
            else:
                click.echo("== task {id}, attempt {attempt}: {outcome}".format(**about))
                click.echo(cell(output), nl=not output.endswith("\n"))
    if not found:
        raise CommandFailed("no output is stored: it is kept of attempts that failed or were stopped, if they printed")
