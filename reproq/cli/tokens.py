"""`reproq tokens create | list | revoke`: who may use the gateway."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from reproq.cli.options import database_address, settings_options
from reproq.cli.run import CommandFailed
from reproq.cli.sheets import ANSWER_AS_JSON, as_json_text, say, show_table
from reproq.config import SettingsError, seconds
from reproq.queue import run
from reproq.queue.tokens import SCOPES, create_token, list_tokens, revoke_token

if TYPE_CHECKING:
    from reproq.db.connect import Connection

NAME = click.argument("name", metavar="NAME")
_LONGEST_S = 3650 * 86400
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,99}", re.ASCII)


@click.group("tokens")
def command() -> None:
    """Tokens by which programs use the gateway. For the owner's or an administrator's login.

    \b
    reproq tokens create shop-backend --scope tasks:write --scope tasks:read
    reproq tokens list
    reproq tokens revoke shop-backend
    """


@command.command("create")
@NAME
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(list(SCOPES)),
    multiple=True,
    required=True,
    metavar="SCOPE",
    help=f"What it may do (repeatable): {', '.join(SCOPES)}.",
)
@click.option("--queue", "queues", metavar="QUEUE", multiple=True, help="Only tasks of this queue (repeatable).")
@click.option(
    "--type-prefix", "prefixes", metavar="PREFIX", multiple=True, help="Only types that start so (repeatable)."
)
@click.option("--expires", metavar="TIME", help="Good for so long, e.g. 90d (default: until it is revoked).")
@settings_options("database_url")
@ANSWER_AS_JSON
def create(
    name: str,
    scopes: tuple[str, ...],
    queues: tuple[str, ...],
    prefixes: tuple[str, ...],
    expires: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Make a token and print it, this once: the database keeps its hash only.

    \b
    reproq tokens create shop-backend --scope tasks:write --scope tasks:read
    reproq tokens create reports --scope tasks:write --queue reports --expires 90d
    """
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name!r:.60} isn't a token's name: 1 to 100 letters, digits and _ . : @ -")
    if not all((*queues, *prefixes)):
        raise SettingsError("an empty --queue or --type-prefix names nothing; leave it out to mean all")
    token = f"rq_{secrets.token_urlsafe(32)}"
    call = create_token(
        name, hashlib.sha256(token.encode()).digest(), scopes, queues or None, prefixes or None, _length(expires)
    )
    _asked(flags, lambda connection: run(connection, call))
    click.echo("keep it now, it can't be shown again:", err=True)
    click.echo(as_json_text({"name": name, "token": token}) if as_json else token)


@command.command("list")
@settings_options("database_url")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_(as_json: bool, **flags: Any) -> None:
    """All tokens, the newest first; never the tokens themselves.

    \b
    reproq tokens list
    reproq tokens list --json | jq -r 'select(.revoked_at == null) | .name'
    """
    rows = _asked(flags, lambda connection: run(connection, list_tokens()))
    if not as_json:
        show_table(rows, "no tokens")
        return
    for row in rows:
        click.echo(as_json_text(row))


@command.command("revoke")
@NAME
@settings_options("database_url")
@ANSWER_AS_JSON
def revoke(name: str, as_json: bool, **flags: Any) -> None:
    """End a token. Every gateway refuses it within five seconds.

    \b
    reproq tokens revoke shop-backend
    """
    answer = _asked(flags, lambda connection: run(connection, revoke_token(name)))
    say(answer, as_json, name=name)
    if answer != "revoked":
        raise CommandFailed(f"no token named {name!r:.60} is good; `reproq tokens list` shows which there are")


def _length(text: str | None) -> float | None:
    try:
        length = None if text is None else seconds(text)
    except ValueError as problem:
        raise SettingsError(f"--expires: {problem}") from None
    if length is not None and not 0 < length <= _LONGEST_S:
        raise SettingsError("--expires: a token is good for ten years at most (3650d); without it, until it is revoked")
    return length


def _asked(flags: dict[str, Any], ask: Callable[[Connection], Any]) -> Any:
    from psycopg.errors import InsufficientPrivilege

    from reproq.db.connect import connect
    from reproq.db.migration.roles import as_owner_if_possible

    with connect(database_address(flags), name="reproq tokens") as connection:
        try:
            with as_owner_if_possible(connection):
                return ask(connection)
        except InsufficientPrivilege:
            raise SettingsError(
                f"the login {connection.info.user} may not make or see tokens: give --database-url of the owner or "
                "an administrator"
            ) from None
