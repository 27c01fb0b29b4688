"""How the demo looks: a live table on a terminal, a line for each change elsewhere, the same table at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from textwrap import shorten
from types import TracebackType
from typing import Self

from rich.box import ROUNDED
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from reproq.cli.demo_story import Ending

_COLOURS = {"SUCCESSFUL": "green", "FAILED": "red", "RUNNING": "cyan", "RETRYING": "yellow", "CANCELLED": "magenta"}


class View:
    def __init__(self, plain: bool) -> None:
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console = Console(highlight=False, width=132, no_color=True)
        self._began = time.monotonic()
        self._seen: dict[int, str] = {}
        self._live: Live | None = None
        if self.console.is_terminal and not plain:
            self._live = Live(console=self.console, refresh_per_second=12, transient=True)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        self.console.print(f"{time.monotonic() - self._began:5.1f} s  {escape(text)}", soft_wrap=True)

    def show(self, endings: Sequence[Ending]) -> None:
        if self._live:
            self._live.update(table(endings))
            return
        for ending in endings:
            news = _news(ending)
            if self._seen.get(ending.task_id) != news:
                self._seen[ending.task_id] = news
                self.say(f"#{ending.task_id} {ending.chapter.task_type:<20} {news}")

    def conclude(self, endings: Sequence[Ending], timeline: str) -> None:
        self.console.print(table(endings))
        self.console.print(
            "the email as a process (reproq process show):", escape(timeline), sep="\n\n", soft_wrap=True
        )
        self.console.print()


def table(endings: Sequence[Ending]) -> Table:
    made = Table(box=ROUNDED, show_lines=True)
    made.add_column("")
    made.add_column("task", min_width=18)
    made.add_column("what happened; result or last error", ratio=1, overflow="fold")
    made.add_column("status", no_wrap=True)
    made.add_column("attempts", justify="right", no_wrap=True)
    made.add_column("took", justify="right", no_wrap=True)
    for ending in endings:
        made.add_row(*_cells(ending))
    return made


def _cells(ending: Ending) -> list[str]:
    state = ending.state
    status = str(state.get("status", ""))
    mark = ("[green]✓[/]" if ending.is_right else "[red]✗[/]") if ending.is_over else " "
    outcome = shorten(_outcome(ending), 110, placeholder=" …")
    return [
        mark,
        f"[bold]{escape(ending.chapter.task_type)}[/]\n{escape(ending.chapter.shows)}",
        escape(_happened(ending) + (f"\n{outcome}" if outcome else "")),
        f"[{_COLOURS.get(status, 'white')}]{status}[/]",
        str(state.get("attempt_count", "")),
        f"{state['took_s']:.1f} s" if ending.is_over else "",
    ]


def _happened(ending: Ending) -> str:
    """Each failed attempt by its kind, then the end."""
    steps = [str((failure["detail"] or {}).get("kind", "failed")) for failure in ending.failures]
    if ending.state.get("status") == "SUCCESSFUL":
        steps.append("succeeded")
    elif not ending.is_over:
        steps.append("…")
    return " → ".join(steps)


def _outcome(ending: Ending) -> str:
    state = ending.state
    if state.get("status") == "SUCCESSFUL":
        return json.dumps(state["result_json"], ensure_ascii=False)
    told = state.get("last_error") if state.get("status") in ("RETRYING", "FAILED", "CANCELLED") else None
    return str(told or "").partition("\n")[0]


def _news(ending: Ending) -> str:
    status, attempt = ending.state.get("status", "?"), ending.state.get("attempt_count", 0)
    of_attempt = f"attempt {attempt}" if attempt else ending.chapter.shows
    told = _outcome(ending)
    return f"{status:<10} {of_attempt}{': ' + told if told else ''}"
