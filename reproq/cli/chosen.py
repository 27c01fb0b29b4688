"""Orders for many tasks, chosen by a filter: the count first, a question, then batches that commit one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reproq.cli.connection import connected
from reproq.cli.options import settings_options
from reproq.cli.run import CommandFailed
from reproq.cli.sheets import as_json_text
from reproq.cli.terminal import ask, bar
from reproq.config import SettingsError, seconds

if TYPE_CHECKING:
    from reproq.db.connect import Connection
    from reproq.db.line import Call
    from reproq.queue.many import Filter

BATCH = 1000
PAST = {"cancel": "cancelled", "replay": "replayed"}
_HARMLESS = {"cancelled", "stopping", "replayed", "too_late"}
Function = TypeVar("Function", bound=Callable[..., Any])
_FILTERS = (
    click.option("--type", "prefix", metavar="PREFIX", help="Tasks of types that start with this."),
    click.option("--queue", metavar="NAME", help="Tasks of this queue."),
    click.option("--status", metavar="STATUS", help="Tasks of this status."),
    click.option("--older-than", metavar="TIME", help="Tasks that were stored longer ago, e.g. 90s, 2h."),
    click.option("--failure-kind", metavar="KIND", help="Tasks that failed so, e.g. timed_out."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many, the oldest first."),
    click.option("--dry-run", is_flag=True, help="Only say how many it would be."),
    click.option("--yes", is_flag=True, help="Don't ask."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object: the outcome, or one for each ID."),
)
_FIELDS = ("prefix", "queue", "status", "older_than", "failure_kind")


def filters(function: Function) -> Function:
    function = settings_options("database_url")(function)
    for option in reversed(_FILTERS):
        function = option(function)
    return function


def is_given(wish: dict[str, Any]) -> bool:
    return any(wish[name] is not None for name in (*_FIELDS, "limit"))


def carry_out(action: str, wish: dict[str, Any], one_batch: Callable[[Filter, int, int, int], Call]) -> None:
    """`one_batch` makes the call for a filter, after an id, up to an id, for so many."""
    from reproq.queue import many, run

    limit, dry_run, yes, as_json = (wish.pop(name) for name in ("limit", "dry_run", "yes", "as_json"))
    chosen = _filter(wish)
    with connected(wish, f"reproq {action}") as connection:
        tasks, upto_id = run(connection, many.count_chosen(action, chosen))
        tasks = min(tasks, limit or tasks)
        if dry_run or not tasks:
            _say_count(action, tasks, as_json)
            return
        ask(f"{tasks} {_noun(tasks)} will be {PAST[action]}. Go on?", yes)
        answers = _in_batches(connection, tasks, lambda after, most: one_batch(chosen, after, upto_id, most))
    _conclude(tasks, answers, as_json)


def _filter(wish: dict[str, Any]) -> Filter:
    from reproq.queue.many import Filter

    prefix, queue, status, older, kind = (wish.pop(name) for name in _FIELDS)
    try:
        age = None if older is None else seconds(older)
    except ValueError as problem:
        raise SettingsError(f"--older-than: {problem}") from None
    return Filter(prefix, queue, status and status.upper(), age, kind)


def _in_batches(connection: Connection, tasks: int, batch: Callable[[int, int], Call]) -> Counter[str]:
    from reproq.queue import run

    answers: Counter[str] = Counter()
    after: int | None = 0
    with bar("working", tasks) as working:
        try:
            while after is not None and (left := tasks - answers.total()) > 0:
                after, said = run(connection, batch(after, min(BATCH, left)))
                answers.update(said)
                working.advance(sum(said.values()))
        except KeyboardInterrupt:
            with working.aside():
                click.echo(f"stopped after {_told(answers) or 'none'}; the rest is as it was", err=True)
            raise
    return answers


def _noun(tasks: int) -> str:
    return "task" if tasks == 1 else "tasks"


def _say_count(action: str, tasks: int, as_json: bool) -> None:
    if as_json:
        click.echo(as_json_text({"chosen": tasks, "answers": {}}))
    else:
        click.echo(f"{tasks} {_noun(tasks)} would be {PAST[action]}" if tasks else "no task fits")


def _conclude(tasks: int, answers: Counter[str], as_json: bool) -> None:
    click.echo(as_json_text({"chosen": tasks, "answers": answers}) if as_json else _told(answers) or "none was left")
    bad = sum(count for answer, count in answers.items() if answer not in _HARMLESS)
    if bad:
        raise CommandFailed(f"{bad} of the tasks stay as they were; see the answers")


def _told(answers: Counter[str]) -> str:
    return ", ".join(f"{count} {answer}" for answer, count in answers.most_common())
