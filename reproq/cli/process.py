"""`reproq process show | list | dry-run | retry | resolve | new`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from reproq.cli.options import database_address, settings_options
from reproq.cli.run import CommandFailed
from reproq.cli.sheets import as_json_text, show_table

if TYPE_CHECKING:
    from reproq.db.connect import Connection

PROCESS = click.argument("name", metavar="PROCESS")
NUMBER = click.IntRange(max=2**63 - 1)  # an id is a bigint
ID = click.argument("number", metavar="ID", type=NUMBER)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@click.group("process")
def command() -> None:
    """Look at business processes, try one again, write one of your own.

    \b
    reproq process list --state unknown
    reproq process show comms.send_email 123
    reproq process new invoice_reminder
    """


@contextmanager
def _connected(address: str) -> Iterator[Connection]:
    """A connection; an answer that is simply no becomes exit status 1."""
    from reproq.db.connect import connect
    from reproq.db.processes import NotThere

    with connect(address, name="reproq process") as connection:
        try:
            yield connection
        except NotThere as no:
            raise CommandFailed(str(no)) from None


@command.command("show")
@PROCESS
@ID
@settings_options("database_url")
@AS_JSON
def show(name: str, number: int, as_json: bool, **flags: Any) -> None:
    """The timeline of one process: its facts, its attempts with their tasks, errors, the next check, its end.

    PROCESS is schema.process, also one of your own. Needs a login that may see it: the owner or an administrator.

    \b
    reproq process show comms.send_email 123
    reproq process show invoice_reminder 7
    reproq process show comms.send_sms 9 --json | jq .ended
    """
    from reproq.cli.process_view import sheet
    from reproq.db.processes import find_process, timeline_of

    with _connected(database_address(flags)) as connection:
        timeline = timeline_of(connection, find_process(connection, name), number)
    if as_json:
        click.echo(as_json_text(dataclasses.asdict(timeline) | {"ended": timeline.ended}))
    else:
        click.echo("\n".join(sheet(timeline)))


@command.command("list")
@click.argument("name", metavar="[PROCESS]", required=False)
@settings_options("database_url")
@click.option("--state", metavar="STATE", help="Only these: open, succeeded, failed, unknown, resolved, …")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_(name: str | None, state: str | None, limit: int, as_json: bool, **flags: Any) -> None:
    """The newest processes first, of one kind or of all. Needs the login of the owner or an administrator.

    \b
    reproq process list
    reproq process list comms.send_email --state unknown
    reproq process list --state open --json | jq .id
    """
    from reproq.db.processes import all_processes, find_process, listed

    with _connected(database_address(flags)) as connection:
        kinds = [find_process(connection, name)] if name else all_processes(connection)
        rows = listed(connection, kinds, state=state, limit=limit)
    if not as_json:
        show_table(rows, "no processes")
        return
    for row in rows:
        click.echo(as_json_text(row))


@command.command("dry-run")
@click.argument("name", metavar="SUPERVISOR")
@click.option(
    "--id", "number", metavar="ID", type=NUMBER, required=True, help="The process whose supervisor is to think."
)
@settings_options("database_url")
@AS_JSON
def dry_run(name: str, number: int, as_json: bool, **flags: Any) -> None:
    """What a supervisor would answer and write if it ran now. All is rolled back, but numbers that were drawn are gone.

    It waits for, and briefly holds up, the supervisor itself. Needs the login of the owner or an administrator.

    \b
    reproq process dry-run comms.send_email_supervisor --id 123
    reproq process dry-run invoice_reminder_supervisor --id 7 --json
    """
    from reproq.cli.process_view import rehearsal_sheet
    from reproq.db.processes import find_process, rehearse

    address = database_address(flags)
    with _connected(address) as connection:
        rehearsal = rehearse(connection, address, find_process(connection, name), number)
    click.echo(as_json_text(dataclasses.asdict(rehearsal)) if as_json else "\n".join(rehearsal_sheet(rehearsal)))
    if not rehearsal.would_stay:
        raise CommandFailed("the supervisor failed; a worker would keep none of this and retry it")


@command.command("retry")
@PROCESS
@ID
@settings_options("database_url")
@AS_JSON
def retry(name: str, number: int, as_json: bool, **flags: Any) -> None:
    """Try a process again that ended without success; prints the new one's id. Its effects may repeat.

    PROCESS may be one of your own with a function retry_<process>(id). Needs the owner's or an administrator's login.

    \b
    reproq process retry comms.send_email 123
    """
    from reproq.db import processes

    with _connected(database_address(flags)) as connection:
        new_id = processes.retry(connection, processes.find_process(connection, name), number)
    click.echo(as_json_text({"id": number, "retry": new_id}) if as_json else new_id)


@command.command("resolve")
@PROCESS
@ID
@settings_options("database_url")
@click.option("--sent", "resolution", flag_value="sent", help="It arrived.")
@click.option("--not-sent", "resolution", flag_value="not_sent", help="It didn't.")
@AS_JSON
def resolve(name: str, number: int, resolution: str | None, as_json: bool, **flags: Any) -> None:
    """Say what became of a process that ended as unknown: you asked the provider, or the one it was for.

    Nothing is sent by this; `reproq process retry` sends again. Needs the owner's or an administrator's login.

    \b
    reproq process resolve comms.send_email 123 --sent
    reproq process resolve comms.send_email 123 --not-sent
    """
    from reproq.db import processes

    if resolution is None:
        raise click.UsageError("say what you found out: --sent or --not-sent")
    with _connected(database_address(flags)) as connection:
        processes.resolve(connection, processes.find_process(connection, name), number, resolution)
    told = f"{number} resolved as {resolution.replace('_', ' ')}"
    click.echo(as_json_text({"id": number, "resolution": resolution}) if as_json else told)


@command.command("new")
@click.argument("name", metavar="NAME")
@click.option("--dir", "folder", metavar="DIR", default="db/processes", show_default=True, help="Where to write.")
@AS_JSON
def new(name: str, folder: str, as_json: bool) -> None:
    """Write a process of your own: plain SQL, and a test that passes as written.

    \b
    reproq process new invoice_reminder
    pytest db/processes
    reproq migrate --dir db/processes --database-url postgresql://deployer@db/shop
    """
    from reproq.cli.scaffold import write

    written = [str(path) for path in write(name, folder)]
    if as_json:
        click.echo(as_json_text({"process": name, "files": written}))
        return
    for path in written:
        click.echo(f"wrote {path}")
    click.echo(f"next: pytest {folder}, then reproq migrate --dir {folder}")
