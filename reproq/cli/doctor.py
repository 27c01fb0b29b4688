"""`reproq doctor`: is this database as it should be? Each answer with the way out."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from reproq import log
from reproq.cli import exits
from reproq.cli.options import database_address, settings_options
from reproq.config import SettingsError, load
from reproq.models.errors import ReproqError

if TYPE_CHECKING:
    from reproq.db.connect import Connection
    from reproq.db.doctor import Rule, Severity, Verdict


class Unreachable(ReproqError):
    """There is no database at that address, or none that lets us in: a usage error."""

    def __init__(self, problem: str) -> None:
        from reproq.db.reach import way_out

        self.problem = problem
        self.fix = way_out(problem)
        super().__init__(f"database: {problem}; {self.fix}")

    def document(self) -> dict[str, Any]:
        finding = {"severity": "error", "what": log.redact(self.problem), "fix": self.fix}
        says = {"rule": "database.reachable", "says": "the database can be reached", "how": "a connection"}
        return says | {"result": "found", "unseen": None, "findings": [finding]}


@click.command("doctor")
@settings_options("database_url")
@click.option(
    "--security", is_flag=True, help="Instead: who may do what, every right, definer function and setting that matters."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a rule and line.")
def command(security: bool, as_json: bool, **flags: Any) -> int:
    """Look whether a database is as it should be; says what to run where it isn't.

    \b
    reproq doctor
    reproq doctor --json | jq 'select(.result == "found")'
    reproq doctor --security --database-url postgresql://admin@db/shop

    \b
    Ask as an administrator, or as a login that may act as the owner: a lesser one
    can't see everything, and is told what. It changes nothing. Every finding is
    an error, a warning or a note; notes are told and don't count.
    Exit status: 0 everything was seen, and is well · 1 something was found
    2 usage, settings, a server that can't be reached
    3 nothing was found, but this login couldn't see everything
    """
    settings_rules = [] if security else [_settings_verdict(flags)]
    address = _address(flags)
    try:
        verdicts = [*settings_rules, *_verdicts(address, security)]
    except Unreachable as problem:
        if as_json:
            click.echo(json.dumps(problem.document(), ensure_ascii=False))
        raise
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


def _address(flags: dict[str, Any]) -> str:
    """A file that can't be read is a finding, where the address stands elsewhere."""
    try:
        return database_address(dict(flags))
    except SettingsError as problem:
        try:
            return database_address({"database_url": flags.get("database_url"), "config": os.devnull})
        except SettingsError:
            raise problem from None


def _settings_verdict(flags: dict[str, Any]) -> Verdict:
    """What a worker started here would refuse: the file and the environment as it reads them."""
    from reproq.db.doctor.rule import Finding, Rule, Verdict

    rule = Rule(
        "settings.worker", "a worker started here would take its settings", "reproq.toml and environment", lambda _: ()
    )
    given = {"database_url": flags.get("database_url")}
    try:
        load(given, os.environ, flags.get("config"), worker=True, need_database=False)
    except SettingsError as problem:
        return Verdict(
            rule, (Finding(str(problem), "mend it where it stands: reproq worker --help lists all settings"),)
        )
    return Verdict(rule)


def _verdicts(address: str, security: bool) -> list[Verdict]:
    from reproq.db.doctor import examine, look_around

    with _reached(address) as connection:
        return examine(look_around(connection, address), _rules(security))


def _reached(address: str) -> Connection:
    """What can't be looked at is neither well nor a finding."""
    import psycopg

    from reproq.db.connect import connect
    from reproq.db.errors import first_line

    try:
        return connect(address, name="reproq doctor")
    except psycopg.Error as problem:
        raise Unreachable(first_line(problem)) from None


def _rules(security: bool) -> Sequence[Rule]:
    from reproq.db.doctor.health import HEALTH
    from reproq.db.security import RULES

    return RULES if security else HEALTH


def _fields(verdict: Verdict) -> dict[str, Any]:
    result = "not seen" if verdict.unseen else "ok" if not verdict.findings else "found" if verdict.failed else "told"
    rule = verdict.rule
    findings = [
        {"severity": str(rule.severity_of(finding)), "what": finding.what, "fix": finding.fix}
        for finding in verdict.findings
    ]
    told = {"rule": rule.name, "says": rule.says, "how": rule.how, "result": result, "unseen": verdict.unseen}
    return told | {"findings": findings}


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
        rule = verdict.rule
        if verdict.unseen:
            click.echo(f"\n{rule.name}: not seen by this login: {verdict.unseen}")
        for finding in verdict.findings:
            severity = rule.severity_of(finding)
            click.echo(f"\n{rule.name}: {_coloured(severity)}: {finding.what}\n    {finding.fix}")
    count = Counter(str(v.rule.severity_of(f)) for v in verdicts for f in v.findings)
    words = [
        f"{count[word]} {word}{'' if count[word] == 1 else 's'}" for word in ("error", "warning", "note") if count[word]
    ]
    click.echo(f"\n{len(verdicts)} rules: {', '.join(words) or 'nothing found'}")


def _coloured(severity: Severity) -> str:
    """Colours go where they can be seen, and nowhere else."""
    colour = {"error": "red", "warning": "yellow"}.get(severity)
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return click.style(severity, fg=colour, bold=True) if colour and wanted else str(severity)
