"""`reproq doctor`: is this database as it should be? Each answer with the way out."""

from __future__ import annotations

import dataclasses
import json
import shutil
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from reproq.cli import exits
from reproq.cli.options import database_address, settings_options
from reproq.models.errors import ReproqError

if TYPE_CHECKING:
    from reproq.db.connect import Connection
    from reproq.db.doctor import Rule, Verdict


class Unreachable(ReproqError):
    """There is no database at that address, or none that lets us in: a usage error."""


@click.command("doctor")
@settings_options("database_url")
@click.option(
    "--security", is_flag=True, help="Who may do what: every right, definer function and setting that matters."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a rule and line.")
def command(security: bool, as_json: bool, **flags: Any) -> int:
    """Look whether a database is as it should be; says what to run where it isn't.

    \b
    reproq doctor
    reproq doctor --security --database-url postgresql://admin@db/shop
    reproq doctor --security --json | jq 'select(.result == "found")'

    \b
    Ask as an administrator, or as a login that may act as the owner: a lesser one
    can't see everything, and is told what. It changes nothing.
    Exit status: 0 everything was seen, and is well · 1 something was found
    2 usage, settings, a server that can't be reached
    3 nothing was found, but this login couldn't see everything
    """
    address = database_address(flags)
    verdicts = _verdicts(address, security)
    if as_json:
        for verdict in verdicts:
            click.echo(json.dumps(_fields(verdict), ensure_ascii=False))
    else:
        _table(verdicts)
        _findings(verdicts)
    return _status(verdicts)


def _status(verdicts: Sequence[Verdict]) -> int:
    if any(verdict.failed for verdict in verdicts):
        return exits.FAILED
    return exits.UNSEEN if any(verdict.unseen for verdict in verdicts) else exits.DONE


def _verdicts(address: str, security: bool) -> list[Verdict]:
    from reproq.db.doctor import examine, look_around

    with _reached(address) as connection:
        return examine(look_around(connection), _rules(security))


def _reached(address: str) -> Connection:
    """What can't be looked at is neither well nor a finding."""
    import psycopg

    from reproq.db.connect import connect
    from reproq.db.errors import first_line

    try:
        return connect(address, name="reproq doctor")
    except psycopg.Error as problem:
        raise Unreachable(f"database: {first_line(problem)}") from None


def _rules(security: bool) -> Sequence[Rule]:
    from reproq.db.doctor import BASICS
    from reproq.db.security import RULES

    return RULES if security else BASICS


def _fields(verdict: Verdict) -> dict[str, Any]:
    result = "not seen" if verdict.unseen else "ok" if not verdict.findings else "found" if verdict.failed else "told"
    findings = [dataclasses.asdict(finding) for finding in verdict.findings]
    rule = verdict.rule
    return {"rule": rule.name, "says": rule.says, "how": rule.how, "result": result, "unseen": verdict.unseen} | {
        "findings": findings
    }


def _table(verdicts: Sequence[Verdict]) -> None:
    """Three columns; the middle one gives way on a narrow terminal."""
    names = max(len("rule"), *(len(verdict.rule.name) for verdict in verdicts))
    results = max(len("result"), *(len(verdict.word) for verdict in verdicts))
    width = max(30, shutil.get_terminal_size((140, 20)).columns - names - results - 6)
    click.echo(f"{'rule':<{names}}  {'how checked':<{width}}  result")
    for verdict in verdicts:
        first, *more = textwrap.wrap(f"{verdict.rule.says} ({verdict.rule.how})", width)
        click.echo(f"{verdict.rule.name:<{names}}  {first:<{width}}  {verdict.word}")
        for line in more:
            click.echo(f"{'':<{names}}  {line}")


def _findings(verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        if verdict.unseen:
            click.echo(f"\n{verdict.rule.name}: not seen by this login: {verdict.unseen}")
        for finding in verdict.findings:
            click.echo(f"\n{verdict.rule.name}: {finding.what}\n    {finding.fix}")
