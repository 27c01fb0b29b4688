"""`reproq dead-letter list | replay`."""

from __future__ import annotations

from typing import Any

import click

from reproq.cli import chosen
from reproq.cli.connection import seeing
from reproq.cli.options import settings_options
from reproq.cli.sheets import as_json_text, show_table
from reproq.cli.task_orders import SOME_IDS, by_filter, client_of, each


@click.group("dead-letter")
def command() -> None:
    """What has failed for good; run it again. To tell a task of each: `reproq queues dead-letter`.

    \b
    reproq dead-letter list
    reproq dead-letter replay --type shop. --failure-kind timed_out
    """


@command.command("list")
@settings_options("database_url")
@click.option("--type", "prefix", metavar="PREFIX", default="", help="Only types that start with this.")
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--failure-kind", "kind", metavar="KIND", help="Only those that failed so, e.g. timed_out.")
@click.option("--limit", type=click.IntRange(0, 10_000), default=20, show_default=True, help="So many of the newest.")
@click.option("--counts", "only_counts", is_flag=True, help="Only the counts.")
@click.option("--json", "as_json", is_flag=True, help="The tasks, or with --counts these, one JSON object a line.")
def list_(prefix: str, queue: str | None, kind: str | None, limit: int, **flags: Any) -> None:
    """How many there are by type and kind, then the newest. For the owner's or an administrator's login.

    \b
    reproq dead-letter list
    reproq dead-letter list --type shop. --failure-kind timed_out
    reproq dead-letter list --counts --json | jq 'select(.tasks > 100)'
    """
    from reproq.db.inspection import dead_counts, newest_dead

    only_counts, as_json = flags.pop("only_counts"), flags.pop("as_json")
    with seeing(flags, "reproq dead-letter", "dead letters") as connection:
        counts = dead_counts(connection, prefix=prefix, queue=queue, kind=kind)
        newest = newest_dead(connection, prefix=prefix, queue=queue, kind=kind, limit=limit)
    if as_json:
        for row in counts if only_counts else newest:
            click.echo(as_json_text(row))
        return
    show_table(counts, "no dead letters")
    if newest and not only_counts:
        click.echo()
        show_table(newest, "")


@command.command("replay")
@SOME_IDS
@chosen.filters
def replay(ids: tuple[int, ...], **wish: Any) -> None:
    """Open dead letters once more: the same tasks, with their history and as many attempts more as their types have.

    By ids, or by a filter: then it says how many it would be and asks. `--status CANCELLED` chooses what was cancelled.

    \b
    reproq dead-letter replay 7 8
    reproq dead-letter replay --type shop. --failure-kind timed_out --dry-run
    reproq dead-letter replay --queue bulk --older-than 1d --limit 500 --yes
    """
    from reproq.queue import many

    if by_filter(ids, wish):
        chosen.carry_out("replay", wish, many.replay_many)
        return
    with client_of(wish) as client:
        each(ids, client.replay, ["replayed"], wish["as_json"])
