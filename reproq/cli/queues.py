"""`reproq queues list | pause | resume | limits | limit | audit | dead-letter`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reproq.cli.connection import seeing
from reproq.cli.options import settings_options
from reproq.cli.sheets import ANSWER_AS_JSON, as_json_text, say, show_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from reproq.db.connect import Connection

TYPE = click.option("--type", "is_type", is_flag=True, help="NAME is a task type, not a queue.")
NAME = click.argument("name", metavar="NAME")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


@click.group("queues")
def command() -> None:
    """What waits and runs, by queue; pause and resume; limits. For the owner's or an administrator's login.

    \b
    reproq queues list
    reproq queues pause bulk
    reproq queues limit key 'customer:*' --at-once 2
    """


def _asked(flags: dict[str, Any], ask: Callable[[Connection], Any]) -> Any:
    with seeing(flags, "reproq queues", "or change queues") as connection:
        return ask(connection)


def _shown(rows: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    if not as_json:
        show_table(rows, nothing)
        return
    for row in rows:
        click.echo(as_json_text(row))


@command.command("list")
@settings_options("database_url")
@AS_JSON
def list_(as_json: bool, **flags: Any) -> None:
    """Each queue: paused or not, tasks that are due (counted up to 10,000), later and running, the oldest one's wait.

    \b
    reproq queues list
    reproq queues list --json | jq 'select(.due > 100)'
    """
    from reproq.db.inspection import queues

    _shown(_asked(flags, queues), as_json, "no queue has tasks")


@command.command("pause")
@NAME
@TYPE
@settings_options("database_url")
@ANSWER_AS_JSON
def pause(name: str, is_type: bool, as_json: bool, **flags: Any) -> None:
    """Claim nothing of a queue, or of a type, until it is resumed. What runs goes on.

    \b
    reproq queues pause bulk
    reproq queues pause shop.newsletter --type
    """
    say(_asked(flags, _pauses(name, is_type, True)), as_json, **{"type" if is_type else "queue": name})


@command.command("resume")
@NAME
@TYPE
@settings_options("database_url")
@ANSWER_AS_JSON
def resume(name: str, is_type: bool, as_json: bool, **flags: Any) -> None:
    """Go on with a queue or a type that was paused.

    \b
    reproq queues resume bulk
    reproq queues resume shop.newsletter --type
    """
    say(_asked(flags, _pauses(name, is_type, False)), as_json, **{"type" if is_type else "queue": name})


def _pauses(name: str, is_type: bool, paused: bool) -> Callable[[Connection], Any]:
    from reproq.queue import flow, run

    call = (flow.pause_type if is_type else flow.pause_queue)(name, paused)
    return lambda connection: run(connection, call)


@command.command("limits")
@settings_options("database_url")
@AS_JSON
def limits(as_json: bool, **flags: Any) -> None:
    """All limits, with what their buckets hold now.

    \b
    reproq queues limits
    """
    from reproq.db.inspection import limits as limits_of

    _shown(_asked(flags, limits_of), as_json, "no limits")


@command.command("limit")
@click.argument("scope", type=click.Choice(["queue", "type", "key"]))
@NAME
@click.option("--at-once", "concurrency", type=int, metavar="N", help="At most N at the same time, over all workers.")
@click.option("--rate", type=float, metavar="N", help="At most N a second.")
@click.option(
    "--burst", type=float, metavar="N", help="What may come at once before the rate counts (default: the rate)."
)
@settings_options("database_url")
@ANSWER_AS_JSON
def limit(
    scope: str, name: str, concurrency: int | None, rate: float | None, burst: float | None, as_json: bool, **flags: Any
) -> None:
    """Limit a queue, a type or a key; without --at-once and --rate the limit goes.

    \b
    reproq queues limit queue bulk --at-once 20
    reproq queues limit type shop.call_api --rate 5 --burst 10
    reproq queues limit key 'customer:*' --at-once 1
    reproq queues limit queue bulk
    """
    from reproq.queue import flow, run

    call = flow.put_limit(scope, name, concurrency, rate, burst)
    say(_asked(flags, lambda connection: run(connection, call)), as_json, **{scope: name})


@command.command("audit")
@NAME
@click.argument("which", type=click.Choice(["all", "unusual"]))
@settings_options("database_url")
@ANSWER_AS_JSON
def audit(name: str, which: str, as_json: bool, **flags: Any) -> None:
    """Which events of a queue's tasks are kept: also created, claimed, started and succeeded, or only the unusual ones.

    They are shown by `reproq tasks show`. All of them cost each task four rows.

    \b
    reproq queues audit payments all
    reproq queues audit payments unusual
    """
    from reproq.queue import flow, run

    call = flow.audit_queue(name, which)
    say(_asked(flags, lambda connection: run(connection, call)), as_json, queue=name)


@command.command("dead-letter")
@NAME
@click.argument("task_type", metavar="[TYPE]", required=False)
@settings_options("database_url")
@ANSWER_AS_JSON
def dead_letter(name: str, task_type: str | None, as_json: bool, **flags: Any) -> None:
    """Tell a task of TYPE of each that fails for good in a queue; without TYPE nobody is told any more.

    Its payload has the failed task's id, type, queue, kind of failure, last error, attempts and payload. A type's own
    dead_letter_type wins.

    \b
    reproq queues dead-letter payments billing.call_a_person
    reproq queues dead-letter payments
    """
    from reproq.queue import flow, run

    call = flow.route_dead_letters(name, task_type)
    say(_asked(flags, lambda connection: run(connection, call)), as_json, queue=name)
