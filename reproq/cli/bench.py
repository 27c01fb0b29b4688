"""`reproq bench`: floors and our own figures on one server. The checkout's `make bench` adds peers."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from reproq import log
from reproq.bench import plot, session
from reproq.bench.figures import Step
from reproq.bench.progress import View
from reproq.bench.session import STEPS, Wish
from reproq.cli import exits
from reproq.cli.options import database_address


class _Number(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):  # which is in every range
            self.fail(f"{value} is not a number", param, ctx)
        return number


_OPTIONS = (
    click.option(
        "--database-url", "--dsn", metavar="URL", help="Your own server (default: one that the bench starts)."
    ),
    click.option("--full", is_flag=True, help="Also payload sizes and the flatness rows: about half an hour."),
    click.option("--only", multiple=True, metavar="WORD", help="Only steps with this in their name (repeatable)."),
    click.option("--repeats", type=click.IntRange(1, 9), help="Runs of each step (default 3; with --full 1)."),
    click.option("--scale", type=_Number(0.01, 10), default=1.0, help="Length of every run, 1 = as it should be."),
    click.option(
        "--minutes", type=_Number(0.1), help="Begin no second or third run that wouldn't end within this time."
    ),
    click.option("--fresh", is_flag=True, help="Don't go on with an unfinished session."),
    click.option("--plain", is_flag=True, help="One line for each run, also on a terminal."),
    click.option("--list", "listed", is_flag=True, help="Show the steps and end."),
    click.option("--results", type=click.Path(path_type=Path, file_okay=False), help="Folder for results."),
)


def options(function: Any) -> Any:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command("bench")
@options
def command(**flags: Any) -> int:
    """Measure this machine and server: what a bare client can do (floors), and what Reproq does.

    Without an address it starts a durable PostgreSQL of its own in a temporary folder, gone at the end. On your own
    server it touches only databases, logins and roles that it makes itself (reproq_bench_…), and removes them, also
    those of a bench that was killed; the login needs CREATEDB and CREATEROLE. An interrupted session is taken up by
    the same command.

    \b
    reproq bench
    reproq bench --dsn postgresql://postgres@db/postgres --only no-op
    reproq bench --full --results bench-results
    """
    return measure(flags, STEPS, Path("bench-results"))


def measure(flags: dict[str, Any], steps: Sequence[Step], folder: Path, **more: Any) -> int:
    """Shared with the checkout's own bench, which has more steps."""
    log.setup("warning", human=True)
    if flags.pop("listed"):
        for step in session.named(steps, flags["only"]):
            click.echo(f"{step.section:24} {step.name:45} {step.seconds:4.0f} s{'  full' if step.full else ''}")
        return exits.DONE
    repeats = flags.pop("repeats") or (1 if flags["full"] else 3)
    given = flags.pop("database_url")
    if given == "":
        raise click.UsageError("--database-url is empty: leave it out, and the bench starts a server of its own")
    url = database_address({"database_url": given}) if given else None
    results = flags.pop("results") or folder
    wish = Wish(results, url, repeats=repeats, steps=steps, **{"plot": _plot, **flags, **more})
    outcome = session.run(wish)
    return exits.DONE if outcome.complete else exits.INTERRUPTED


def _plot(raw: Path, view: View) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        view.say("no picture: it needs matplotlib (pip install 'reproq[bench]')")
        return
    plot.draw(raw, raw.with_suffix(".png"), plot.titles_of(raw))
