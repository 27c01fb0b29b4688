"""`reproq dispatch` and `python -m cmd.dispatcher`: settings, schema, then the dispatcher; and what operators do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import click

from reproq import log, signals
from reproq.cli import exits
from reproq.cli.dispatch_sinks import as_operator, sinks
from reproq.cli.options import Function, database_address, loaded, settings_options
from reproq.cli.run import CommandFailed, run
from reproq.cli.sheets import ANSWER_AS_JSON, as_json_text, say, show_table
from reproq.cli.waiting import patiently
from reproq.config import DispatchSettings, SettingsError, load_dispatch
from reproq.config.dispatch import OPTIONS
from reproq.log import Event

_SWITCHES = {"until_empty"}
_REPEATED = {"sinks", "allow_private"}
SHARED = ("allow_private", "ca_file")


class _Stopped(BaseException):
    """Asked to stop before the dispatcher took the signals over: nothing was claimed yet."""


def dispatch_options(*names: str) -> Callable[[Function], Function]:
    """The flags of these settings; none = of all."""

    def decorate(function: Function) -> Function:
        for option in reversed(OPTIONS):
            if not names or option.field in names:
                switch: dict[str, Any] = {"is_flag": True} if option.field in _SWITCHES else {"metavar": option.metavar}
                many = option.field in _REPEATED
                function = click.option(option.flag, option.field, multiple=many, help=option.help, **switch)(function)
        return function

    return decorate


def dispatch_settings(flags: dict[str, Any]) -> DispatchSettings:
    return load_dispatch({option.field: flags.pop(option.field, None) for option in OPTIONS}, os.environ)


@click.group("dispatch", invoke_without_command=True)
@dispatch_options()
@settings_options("database_url", "log_level")
@click.pass_context
def command(context: click.Context, /, **flags: Any) -> int | None:
    """Deliver events to sinks until SIGTERM or Ctrl-C; a second one ends at once.

    \b
    Add a sink, give the dispatcher its secret, deliver:
      reproq dispatch sinks put shop https://hooks.example.com/reproq
      reproq dispatch sinks secret
      REPROQ_SINK_SECRET_SHOP=whsec_… reproq dispatch
    Deliver what is there, and end:
      reproq dispatch --until-empty
    Sinks inside of your own network:
      reproq dispatch --allow-private 10.20.0.0/16

    \b
    Flags can stand in the environment: REPROQ_DISPATCH_SINKS,
    REPROQ_DISPATCH_ALLOW_PRIVATE, … The login needs reproq_dispatcher only.

    \b
    Exit status: 0 everything claimed was delivered or given back · 1 otherwise
    2 wrong usage or settings
    """
    if context.invoked_subcommand is not None:
        return None
    _hide_arguments()
    dispatch = dispatch_settings(flags)
    settings = loaded(flags)
    if settings.database_url is None:
        raise SettingsError("a dispatcher needs a server's address: give --database-url or REPROQ_DATABASE_URL")
    log.setup(settings.log_level)
    log.catch_threads()
    for number in signals.stopping():
        signal.signal(number, _stop)
    try:
        _prepare(settings.database_url)
        return _dispatch(settings.database_url, dispatch)
    except _Stopped:
        log.say(Event.DISPATCHER_STOPPED, "stopped before anything was claimed")
        return exits.DONE


command.add_command(sinks)


def main() -> NoReturn:
    """`python -m cmd.dispatcher`."""
    run(command, "python -m cmd.dispatcher")


def _hide_arguments() -> None:
    """An address on the command line may hold a password."""
    from setproctitle import setproctitle

    setproctitle("reproq dispatcher")


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Stopped


def _prepare(dsn: str) -> None:
    """A dispatcher never migrates: its login may not."""
    from reproq.db import migrate

    patiently(lambda: migrate.ensure(dsn, no_migrate=True))


def _dispatch(dsn: str, settings: DispatchSettings) -> int:
    from reproq.outbox.dispatcher import Dispatcher

    return Dispatcher(dsn, settings, os.environ).run()


@command.command("parked")
@click.argument("name", metavar="[SINK]", required=False)
@settings_options("database_url")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--limit", type=click.IntRange(1, 100000), default=100, show_default=True, help="How many at most.")
def parked(name: str | None, as_json: bool, limit: int, **flags: Any) -> None:
    """Events that were given up, the oldest of each sink first, and why.

    \b
    reproq dispatch parked
    reproq dispatch parked shop --json | jq .last_error
    """
    from reproq.queue import outbox

    rows = as_operator(flags, outbox.parked_deliveries(name, limit))
    if as_json:
        for row in rows:
            click.echo(as_json_text(row))
    else:
        show_table(rows, "nothing is parked")


@command.command("replay")
@click.argument("name", metavar="SINK")
@settings_options("database_url")
@click.option("--since", metavar="TIME", help="Every event from then on, also delivered ones: '2026-05-01 12:00+02'.")
@click.option("--until", metavar="TIME", help="Every event before then.")
@click.option("--event", metavar="ID", help="This one event, by the id that receivers see.")
@ANSWER_AS_JSON
def replay(name: str, since: str | None, until: str | None, event: str | None, as_json: bool, **flags: Any) -> None:
    """Deliver to a sink again what is parked; or everything of a time, say to a new sink. The ids stay the same.

    \b
    reproq dispatch replay shop
    reproq dispatch replay warehouse --since '2026-05-01 00:00+00'
    reproq dispatch replay shop --event 6acc1480-8414-4366-9220-2f1c54b7c3f6
    """
    from reproq.queue import outbox

    count = as_operator(flags, outbox.replay_events(name, since, until, event))
    click.echo(as_json_text({"sink": name, "to_deliver": count}) if as_json else f"{count} to deliver")


@command.command("engine-events")
@click.argument("queue", metavar="QUEUE")
@settings_options("database_url")
@click.option("--off", is_flag=True, help="No more.")
@ANSWER_AS_JSON
def engine_events(queue: str, off: bool, as_json: bool, **flags: Any) -> None:
    """Publish a queue's failed tasks, ended processes and lost workers as events reproq.….

    \b
    reproq dispatch engine-events default
    reproq dispatch engine-events default --off
    """
    from reproq.queue import outbox

    say(as_operator(flags, outbox.engine_events(queue, not off)), as_json, queue=queue)


@sinks.command("test")
@click.argument("name", metavar="NAME")
@dispatch_options(*SHARED)
@settings_options("database_url")
@ANSWER_AS_JSON
def test(name: str, as_json: bool, **flags: Any) -> None:
    """Send one event reproq.test to an enabled sink, signed as ever, and say what it answers.

    \b
    REPROQ_SINK_SECRET_SHOP=whsec_… reproq dispatch sinks test shop
    reproq dispatch sinks test intern --allow-private 10.20.0.0/16
    """
    from reproq.db.connect import connect
    from reproq.outbox.trial import try_sink
    from reproq.queue import outbox
    from reproq.queue import run as ask

    settings = dispatch_settings(flags)
    with connect(database_address(flags), name="reproq dispatch") as connection:
        found = ask(connection, outbox.dispatch_sinks([name]))
    if not found:
        raise CommandFailed(f"no enabled sink is called {name}; see `reproq dispatch sinks list`")
    outcome = try_sink(found[0], settings, os.environ)
    if outcome["result"] != "delivered":
        raise CommandFailed(f"{name}: {outcome['error']}")
    told = f"{name} answered {outcome['status']}"
    click.echo(as_json_text({"sink": name, "status": outcome["status"]}) if as_json else told)
