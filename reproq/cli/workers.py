"""`reproq workers`."""

from __future__ import annotations

from typing import Any

import click

from reproq.cli.connection import seeing
from reproq.cli.options import settings_options
from reproq.cli.sheets import as_json_text, show_table

MOST_SHOWN = 3


@click.command("workers")
@settings_options("database_url")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with all tasks that each holds.")
def command(as_json: bool, **flags: Any) -> None:
    """The workers that live: what they serve, what each holds now, when it was last heard of. * = keeps house.

    One that died vanishes after its worker_timeout; until then its heartbeat grows old. For the owner's or an
    administrator's login.

    \b
    reproq workers
    reproq workers --json | jq '{worker, holds: (.holds | length)}'
    """
    from reproq.db.inspection import workers

    with seeing(flags, "reproq workers", "the workers") as connection:
        rows = workers(connection)
    if not as_json:
        show_table([_line(row) for row in rows], "no worker has reported")
        return
    for row in rows:
        click.echo(as_json_text(row))


def _line(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "": "*" if row["leads"] else "",
        "worker": row["worker"],
        "version": row["version"],
        "queues": _names(row["queues"]),
        "prefixes": _names(row["prefixes"]),
        "pool": row["pool"],
        "holds": _held(row["holds"]),
        "heartbeat": f"{row['heartbeat_age_s']:.1f} s ago",
        "up since": f"{row['started_at']:%Y-%m-%d %H:%M:%S%z}",
    }


def _names(names: list[str] | None) -> str:
    return "all" if names is None else ", ".join(names)


def _held(tasks: list[dict[str, Any]]) -> str:
    if not tasks:
        return "0"
    shown = ", ".join(f"{task['id']} {task['task_type']}" for task in tasks[:MOST_SHOWN])
    return f"{len(tasks)}: {shown}" + (", …" if len(tasks) > MOST_SHOWN else "")
