"""The `reproq` group. A command's module is imported when it is asked for: `reproq worker` pays for no tables."""

from __future__ import annotations

from importlib import import_module, metadata

import click

_HOMES = {
    "worker": "reproq.cli.worker",
    "migrate": "reproq.cli.migrate",
    "enqueue": "reproq.cli.enqueue",
    "tasks": "reproq.cli.tasks",
    "queues": "reproq.cli.queues",
    "schedules": "reproq.cli.schedules",
    "doctor": "reproq.cli.doctor",
    "process": "reproq.cli.process",
    "demo": "reproq.cli.demo",
    "bench": "reproq.cli.bench",
}
_SUMMARIES = {
    "worker": "Run tasks.",
    "migrate": "Bring the database's schema up to date.",
    "enqueue": "Store a task.",
    "tasks": "Look at tasks, cancel, delete, replay.",
    "queues": "What waits and runs; pauses and limits.",
    "schedules": "Tasks by the clock.",
    "doctor": "Look whether a database is as it should be.",
    "process": "Look at business processes, write your own.",
    "demo": "See it work, without a database of your own.",
    "bench": "Measure this machine and server.",
}


class Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HOMES:
            return None
        command = getattr(import_module(_HOMES[cmd_name]), "command")  # noqa: B009 - mypy can't see it
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_SUMMARIES.items()))


def version() -> str:
    try:
        return metadata.version("reproq")
    except metadata.PackageNotFoundError:  # a checkout on PYTHONPATH
        return "from a checkout"


@click.group(cls=Group)
@click.version_option(version(), prog_name="reproq", message="%(prog)s %(version)s")
def reproq() -> None:
    """Tasks in PostgreSQL; each runs in a process of its own and ends in exactly one final state.

    \b
    See it work:            reproq demo
    Start a worker:         reproq worker --embedded --app shop.tasks
    Store a task:           reproq enqueue shop.pay '{"invoice": 7}' --wait
    What became of it:      reproq tasks show 1
    """
