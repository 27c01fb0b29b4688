"""What only a person at a terminal gets: bars, spinners, questions. They go to stderr, so that output can be piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress


@dataclass(frozen=True)
class Bar:
    advance: Callable[[int], None] = lambda _more: None
    aside: Callable[[], AbstractContextManager[None]] = nullcontext
    """For lines that are printed while a bar stands: it goes away for them. Else they land on its line."""


@contextmanager
def bar(label: str, total: int) -> Iterator[Bar]:
    """What it gives counts how many more are done."""
    if not sys.stderr.isatty():
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        row = progress.add_task(label, total=total)
        yield Bar(lambda more: progress.advance(row, more), lambda: _aside(progress))


@contextmanager
def _aside(progress: Progress) -> Iterator[None]:
    progress.stop()
    try:
        yield
    finally:
        progress.start()


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
