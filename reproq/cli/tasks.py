"""`reproq tasks show | list | cancel | delete | replay`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import click

from reproq.cli.options import database_address, settings_options
from reproq.cli.run import CommandFailed
from reproq.cli.sheets import as_json_text, cell, show_table
from reproq.client import Client, UnknownTask
from reproq.config import SettingsError

IDS = click.argument("ids", nargs=-1, required=True, type=int, metavar="ID...")
STATES = ["PENDING", "RUNNING", "RETRYING", "SUCCESSFUL", "FAILED", "CANCELLED"]


@click.group("tasks")
def command() -> None:
    """Look at tasks, cancel, delete, replay.

    \b
    reproq tasks show 7
    reproq tasks list --status FAILED --type shop.
    reproq tasks cancel 7 8 --reason "customer left"
    reproq tasks replay 7
    """


def _client(flags: dict[str, Any]) -> Client:
    return Client(database_address(flags), name="reproq tasks")


@command.command("show")
@IDS
@settings_options("database_url")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def show(ids: tuple[int, ...], as_json: bool, **flags: Any) -> None:
    """How tasks stand: status, attempts, result or error.

    \b
    reproq tasks show 7
    reproq tasks show 7 8 9 --json | jq .status
    """
    with _client(flags) as client:
        for task_id in ids:
            fields = dataclasses.asdict(client.status(task_id))
            click.echo(as_json_text(fields) if as_json else _sheet(fields))


def _sheet(fields: dict[str, Any]) -> str:
    shown = {name: value for name, value in fields.items() if value is not None and name != "leased"}
    width = max(map(len, shown))
    lines = (f"{name:<{width}}  {cell(value)}" for name, value in shown.items())
    return "\n".join([*lines, ""])


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
    from psycopg.errors import InsufficientPrivilege

    from reproq.db.connect import connect
    from reproq.db.inspection import newest_tasks

    with connect(database_address(flags), name="reproq tasks") as connection:
        try:
            rows = newest_tasks(connection, status=status and status.upper(), prefix=prefix, queue=queue, limit=limit)
        except InsufficientPrivilege:
            raise SettingsError(
                f"the login {connection.info.user} may not see all tasks: give --database-url of the owner or an "
                "administrator; `reproq tasks show ID` shows its own"
            ) from None
    if as_json:
        for row in rows:
            click.echo(as_json_text(row))
    else:
        show_table(rows, "no tasks")


@command.command("cancel")
@IDS
@settings_options("database_url")
@click.option("--reason", default="", metavar="TEXT", help="Stored with the task.")
def cancel(ids: tuple[int, ...], reason: str, **flags: Any) -> None:
    """Cancel tasks; one that runs is stopped (SIGTERM, then SIGKILL).

    \b
    reproq tasks cancel 7
    reproq tasks cancel 7 8 9 --reason "customer left"
    """
    with _client(flags) as client:
        _each(ids, lambda task_id: client.cancel(task_id, reason), ["cancelled", "stopping"])


@command.command("delete")
@IDS
@settings_options("database_url")
@click.option("--reason", required=True, metavar="TEXT", help="Stored with the task.")
def delete(ids: tuple[int, ...], reason: str, **flags: Any) -> None:
    """Soft-delete tasks: nobody runs them any more, and their idempotency keys are free.

    \b
    reproq tasks delete 7 --reason "entered twice"
    """
    with _client(flags) as client:
        _each(ids, lambda task_id: client.delete(task_id, reason), ["deleted"])


@command.command("replay")
@IDS
@settings_options("database_url")
def replay(ids: tuple[int, ...], **flags: Any) -> None:
    """Open tasks that are over once more: the same task, with another attempt.

    \b
    reproq tasks replay 7
    """
    with _client(flags) as client:
        _each(ids, client.replay, ["replayed"])


def _each(ids: Iterable[int], act: Callable[[int], str], good: list[str]) -> None:
    """One answer a line, all are tried; status 1 when one of them couldn't be done."""
    bad = 0
    for task_id in ids:
        try:
            answer = act(task_id)
        except UnknownTask:
            answer = "unknown"
        click.echo(f"{task_id} {answer}")
        bad += answer not in good
    if bad:
        raise CommandFailed(f"{bad} of the tasks couldn't be changed; see the answers above")
