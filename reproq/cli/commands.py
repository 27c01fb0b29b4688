"""The `reproq` group. A command's module is imported when it is asked for: `reproq worker` pays for no tables."""

from __future__ import annotations

import os
from importlib import import_module, metadata

import click

COMPLETING = "_REPROQ_COMPLETE"  # what click calls it
# The map that `reproq` shows: by purpose, most wanted first. Each command lives in the module of its name.
_MAP = {
    "Begin": {
        "demo": "See it work, without a database of your own.",
        "worker": "Run tasks.",
        "migrate": "Bring the database's schema up to date.",
    },
    "Tasks": {
        "enqueue": "Store a task.",
        "tasks": "Look at tasks, wait, cancel, delete.",
        "replay": "Run tasks again, or compare with a second run.",
        "dead-letter": "What has failed for good; run it again.",
        "schedules": "Tasks by the clock.",
        "process": "Look at business processes, write your own.",
    },
    "Operate": {
        "top": "Queues, workers and rates, live.",
        "queues": "What waits and runs; pauses, limits, audit.",
        "workers": "Which workers live, and what they hold.",
        "dispatch": "Deliver events to other systems; sinks, replay.",
        "serve": "Answer HTTP: enqueue, wait for results.",
        "tokens": "Who may use the gateway.",
        "doctor": "Look whether a database is as it should be.",
    },
    "More": {
        "bench": "Measure this machine and server.",
        "completion": "Teach your shell to complete all this.",
    },
}
_HOMES = {name: f"reproq.cli.{name.replace('-', '_')}" for section in _MAP.values() for name in section}


class Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HOMES:
            return None
        command = getattr(import_module(_HOMES[cmd_name]), "command")  # noqa: B009 - mypy can't see it
        if not isinstance(command, click.Command):
            return None
        if COMPLETING in os.environ:
            from reproq.cli.completion import teach

            teach(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _HOMES and not args[0].startswith("-"):
            from reproq.config.values import suggestion

            raise click.UsageError(f"No such command '{args[0]}'{suggestion(args[0], _HOMES)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _HOMES))
        for section, commands in _MAP.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


def version() -> str:
    try:
        return metadata.version("reproq")
    except metadata.PackageNotFoundError:  # a checkout on PYTHONPATH
        return "from a checkout"


@click.group(cls=Group, invoke_without_command=True)
@click.version_option(version(), prog_name="reproq", message="%(prog)s %(version)s")
@click.pass_context
def reproq(ctx: click.Context) -> None:
    """Tasks in PostgreSQL; each runs in a process of its own and ends in exactly one final state.

    \b
    See it work:            reproq demo
    Start a worker:         reproq worker --embedded --app shop.tasks
    Store a task:           reproq enqueue shop.pay '{"invoice": 7}' --wait
    What became of it:      reproq tasks show 1
    Watch the whole:        reproq top
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
