"""What only a person at a terminal gets: bars, spinners, questions. They go to stderr, so that output can be piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Advance = Callable[[int], None]


@contextmanager
def bar(label: str, total: int) -> Iterator[Advance]:
    """What it gives counts how many more are done."""
    if not sys.stderr.isatty():
        yield lambda _more: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        row = progress.add_task(label, total=total)
        yield lambda more: progress.advance(row, more)


@contextmanager
def spinner(text: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def ask(question: str, yes: bool) -> None:
    """Goes on after a yes. A script says it beforehand."""
    if yes:
        return
    if not somebody_is_here():
        raise click.UsageError(f"{question} Nobody is here to answer: add --yes")
    click.confirm(question, abort=True, err=True)


def somebody_is_here() -> bool:
    return sys.stdin.isatty()
