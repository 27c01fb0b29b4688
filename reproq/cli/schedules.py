"""`reproq schedules put | list | next | pause | resume | run | drop`."""

from __future__ import annotations

from typing import Any

import click

from reproq.cli.options import database_address, settings_options
from reproq.cli.run import CommandFailed
from reproq.cli.sheets import ANSWER_AS_JSON, as_json_text, say, show_table
from reproq.config.values import suggestion
from reproq.db.line import Call
from reproq.queue.overview import names

NAME = click.argument("name", metavar="NAME")
_SHOWN = ("schedule_name", "when", "task_type", "queue_name", "enabled", "next_slot", "last_error")


@click.group("schedules")
def command() -> None:
    """Tasks by the clock: cron expressions in a time zone, or intervals. Each slot is enqueued exactly once.

    \b
    reproq schedules put nightly shop.close_day --cron "30 2 * * *" \\
                         --time-zone Europe/Berlin
    reproq schedules put poll shop.poll '{"from": "bank"}' --every "5 minutes"
    reproq schedules next nightly
    """


def _asked(flags: dict[str, Any], call: Call) -> Any:
    from reproq.db.connect import connect
    from reproq.queue import run

    with connect(database_address(dict(flags)), name="reproq schedules") as connection:
        return run(connection, call)


@command.command("put")
@NAME
@click.argument("task_type", metavar="TYPE")
@click.argument("payload", metavar="[PAYLOAD]", default="{}")
@settings_options("database_url")
@click.option(
    "--cron", metavar="EXPRESSION", help="Five fields: minute hour day month weekday; or @daily and the like."
)
@click.option("--every", metavar="TIME", help='Instead of --cron, an interval: "90 seconds", "2 hours".')
@click.option("--time-zone", metavar="ZONE", default="UTC", show_default=True, help="For --cron, e.g. Europe/Berlin.")
@click.option("--queue", metavar="NAME", default="default", show_default=True, help="Queue of its tasks.")
@click.option("--priority", type=int, default=0, show_default=True, help="Of its tasks; higher runs first.")
@click.option("--max-attempts", type=int, metavar="N", help="Of its tasks (default: the type's).")
@click.option(
    "--catch-up",
    type=click.Choice(["none", "one", "all"]),
    default="one",
    show_default=True,
    help="Which of the slots that were missed (no worker, paused) are enqueued later.",
)
@ANSWER_AS_JSON
def put(
    name: str,
    task_type: str,
    payload: str,
    cron: str | None,
    every: str | None,
    time_zone: str,
    queue: str,
    priority: int,
    max_attempts: int | None,
    catch_up: str,
    as_json: bool,
    **flags: Any,
) -> None:
    """Make a schedule, or change it. Prints its next slot.

    An expression that names hour and minute means the clock on the wall: once a night, also in the two nights on which
    clocks are changed. One with a star in hour or minute follows time as it passes.

    \b
    reproq schedules put nightly shop.close_day --cron "30 2 * * *" \\
                         --time-zone Europe/Berlin
    reproq schedules put poll shop.poll '{"from": "bank"}' --every "5 minutes"
    """
    from reproq.queue import schedules

    call = schedules.put_schedule(
        name, task_type, payload, cron=cron, every=every, time_zone=time_zone, queue_name=queue, priority=priority,
        max_attempts=max_attempts, catch_up=catch_up,
    )  # fmt: skip
    slot = _asked(flags, call)
    click.echo(as_json_text({"schedule": name, "next_slot": slot}) if as_json else slot)


@command.command("list")
@settings_options("database_url")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_(as_json: bool, **flags: Any) -> None:
    """Your schedules: when, what, next slot, last error.

    \b
    reproq schedules list
    reproq schedules list --json | jq 'select(.last_error)'
    """
    from reproq.queue import schedules

    rows = _asked(flags, schedules.list_schedules())
    if as_json:
        for row in rows:
            click.echo(as_json_text(row))
        return
    for row in rows:
        row["when"] = f"{row['cron']} {row['time_zone']}" if row["cron"] else f"every {row['every']}"
    show_table([{name: row[name] for name in _SHOWN} for row in rows], "no schedules")


@command.command("next")
@NAME
@settings_options("database_url")
@click.option("--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def next_(name: str, count: int, as_json: bool, **flags: Any) -> None:
    """The next slots of a schedule.

    \b
    reproq schedules next nightly
    reproq schedules next nightly --count 30 --json | jq -r .slot
    """
    from reproq.queue import schedules

    slots = _asked(flags, schedules.schedule_slots(name, count))
    if not slots:
        if name not in _asked(flags, names("schedule", name)):
            raise _unknown(name, flags)
        raise CommandFailed(f"schedule {name} has no slot to come; see `reproq schedules list`")
    for slot in slots:
        click.echo(as_json_text({"slot": slot}) if as_json else slot)


@command.command("pause")
@NAME
@settings_options("database_url")
@ANSWER_AS_JSON
def pause(name: str, as_json: bool, **flags: Any) -> None:
    """Enqueue none of its slots until it is resumed.

    \b
    reproq schedules pause nightly
    """
    _enable(name, False, as_json, flags)


@command.command("resume")
@NAME
@settings_options("database_url")
@ANSWER_AS_JSON
def resume(name: str, as_json: bool, **flags: Any) -> None:
    """Go on; what was missed is up to its --catch-up.

    \b
    reproq schedules resume nightly
    """
    _enable(name, True, as_json, flags)


def _enable(name: str, enabled: bool, as_json: bool, flags: dict[str, Any]) -> None:
    from reproq.queue import schedules

    _known(name, _asked(flags, schedules.enable_schedule(name, enabled)), as_json, flags)


@command.command("run")
@NAME
@settings_options("database_url")
@ANSWER_AS_JSON
def run(name: str, as_json: bool, **flags: Any) -> None:
    """Enqueue its task now, beside its slots. Prints the task's id.

    \b
    reproq schedules run nightly
    """
    from reproq.queue import schedules

    task_id = _asked(flags, schedules.run_schedule(name))
    if task_id is None:
        raise _unknown(name, flags)
    click.echo(as_json_text({"schedule": name, "id": task_id}) if as_json else task_id)


@command.command("drop")
@NAME
@settings_options("database_url")
@ANSWER_AS_JSON
def drop(name: str, as_json: bool, **flags: Any) -> None:
    """Remove a schedule; the tasks that it enqueued stay.

    \b
    reproq schedules drop nightly
    """
    from reproq.queue import schedules

    _known(name, _asked(flags, schedules.drop_schedule(name)), as_json, flags)


def _known(name: str, answer: object, as_json: bool, flags: dict[str, Any]) -> None:
    if answer == "unknown":
        raise _unknown(name, flags)
    say(answer, as_json, schedule=name)


def _unknown(name: str, flags: dict[str, Any]) -> CommandFailed:
    """With the nearest name that there is."""
    yours = _asked(flags, names("schedule", ""))
    return CommandFailed(f"no schedule {name} of yours{suggestion(name, yours)}; see `reproq schedules list`")
