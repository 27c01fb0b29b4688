"""`reproq dispatch sinks put | list | secret | test | enable | disable | drop`."""

from __future__ import annotations

import base64
import secrets
from typing import Any

import click

from reproq.cli.options import database_address, settings_options
from reproq.cli.run import CommandFailed
from reproq.cli.sheets import ANSWER_AS_JSON, as_json_text, say, show_table
from reproq.config import SettingsError
from reproq.config.dispatch import secret_variable
from reproq.db.line import Call

NAME = click.argument("name", metavar="NAME")
_SHOWN = ("sink_name", "host", "mode", "types", "state", "waiting", "parked", "last_error")


@click.group("sinks")
def sinks() -> None:
    """Where events go. For the owner's or an administrator's login.

    \b
    reproq dispatch sinks put shop https://hooks.example.com/reproq --type shop.
    reproq dispatch sinks list
    reproq dispatch sinks test shop
    """


def as_operator(flags: dict[str, Any], call: Call) -> Any:
    from psycopg.errors import InsufficientPrivilege

    from reproq.db.connect import connect
    from reproq.db.migration.roles import as_owner_if_possible
    from reproq.queue import run

    with connect(database_address(flags), name="reproq dispatch") as connection:
        try:
            with as_owner_if_possible(connection):
                return run(connection, call)
        except InsufficientPrivilege:
            raise SettingsError(
                f"the login {connection.info.user} may not see or change sinks: give --database-url of the owner or "
                "an administrator"
            ) from None


@sinks.command("put")
@NAME
@click.argument("url", metavar="[URL]", required=False)
@settings_options("database_url")
@click.option("--mode", type=click.Choice(["structured", "binary", "batched"]), help="How events travel (structured).")
@click.option("--type", "type_prefixes", metavar="PREFIX", multiple=True, help="Types that begin so ('' = every type).")
@click.option("--signed/--unsigned", default=None, help="Sign by Standard Webhooks (signed).")
@click.option("--private/--public", "allow_private", default=None, help="May it have a private address? (public)")
@click.option("--max-attempts", type=int, metavar="N", help="Then an event is parked (20).")
@click.option("--max-age", metavar="TIME", help="Of failing; then it is parked ('3 days').")
@click.option("--timeout", metavar="TIME", help="Of one request, at most a minute ('10 seconds').")
@click.option("--batch-size", type=int, metavar="N", help="Events in a batch at most (100).")
@click.option("--backoff-base", metavar="TIME", help="After the first failure, then doubling ('1 second').")
@click.option("--backoff-cap", metavar="TIME", help="The longest back-off ('6 hours').")
@ANSWER_AS_JSON
def put(name: str, url: str | None, type_prefixes: tuple[str, ...], as_json: bool, **flags: Any) -> None:
    """Add a sink, or change what is given of it. A new one gets events that are published from now on.

    \b
    reproq dispatch sinks put shop https://example.com --type shop. --type mail.
    reproq dispatch sinks put shop --mode batched --batch-size 500
    reproq dispatch sinks put intern http://10.20.0.7:8080/ --private --unsigned
    """
    from reproq.outbox.post import Place, Unreachable
    from reproq.queue import outbox

    database = {field: flags.pop(field) for field in ("database_url", "config")}
    try:
        if url is not None:
            Place.of(url)
    except Unreachable as problem:
        raise SettingsError(f"sink {name}: {problem}") from None
    given = {**flags, "url": url, "type_prefixes": list(type_prefixes) or None}
    answer = as_operator(database, outbox.put_sink(name, **given))
    say(answer, as_json, sink=name)
    if answer == "added" and given["signed"] is not False:
        click.echo(
            f"its dispatcher needs {secret_variable(name)}=whsec_… (`reproq dispatch sinks secret` makes one)", err=True
        )


@sinks.command("list")
@settings_options("database_url")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with whole addresses.")
def list_(as_json: bool, **flags: Any) -> None:
    """Sinks, how they stand, what waits for them and what is parked.

    \b
    reproq dispatch sinks list
    reproq dispatch sinks list --json | jq 'select(.parked > 0)'
    """
    from reproq.queue import outbox

    rows = as_operator(flags, outbox.list_sinks())
    if as_json:
        for row in rows:
            click.echo(as_json_text(row))
        return
    show_table([{name: _told(row)[name] for name in _SHOWN} for row in rows], "no sinks")


def _told(row: dict[str, Any]) -> dict[str, Any]:
    state = f"disabled: {row['disabled_reason']}" if not row["enabled"] else "enabled"
    if row["enabled"] and row["resume_at"]:
        state = f"pauses until {row['resume_at']}"
    host = "/".join(str(row["url"]).split("?")[0].split("/")[:3])
    return {**row, "state": state, "host": host, "types": ", ".join(row["type_prefixes"] or ["every type"])}


@sinks.command("secret")
@ANSWER_AS_JSON
def secret(as_json: bool) -> None:
    """Make a signing secret. Nothing is stored: give it to the dispatcher and to the receiver.

    \b
    reproq dispatch sinks secret
    """
    made = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    click.echo(as_json_text({"secret": made}) if as_json else made)


@sinks.command("enable")
@NAME
@settings_options("database_url")
@ANSWER_AS_JSON
def enable(name: str, as_json: bool, **flags: Any) -> None:
    """Go on with deliveries to a sink.

    \b
    reproq dispatch sinks enable shop
    """
    from reproq.queue import outbox

    _known(name, as_operator(flags, outbox.enable_sink(name, True)), as_json)


@sinks.command("disable")
@NAME
@settings_options("database_url")
@ANSWER_AS_JSON
def disable(name: str, as_json: bool, **flags: Any) -> None:
    """Deliver nothing to a sink; its events wait, and are parked when they are older than its --max-age.

    \b
    reproq dispatch sinks disable shop
    """
    from reproq.queue import outbox

    _known(name, as_operator(flags, outbox.enable_sink(name, False)), as_json)


@sinks.command("drop")
@NAME
@settings_options("database_url")
@ANSWER_AS_JSON
def drop(name: str, as_json: bool, **flags: Any) -> None:
    """Remove a sink, with what waits for it.

    \b
    reproq dispatch sinks drop shop
    """
    from reproq.queue import outbox

    _known(name, as_operator(flags, outbox.drop_sink(name)), as_json)


def _known(name: str, answer: str, as_json: bool) -> None:
    if answer == "unknown":
        raise CommandFailed(f"no sink is called {name}; see `reproq dispatch sinks list`")
    say(answer, as_json, sink=name)
