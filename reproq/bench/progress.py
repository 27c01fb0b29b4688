"""How far a session is: a bar on a terminal, a line for each run elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class View:
    def __init__(self, total_s: float, plain: bool = False) -> None:
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console = Console(highlight=False, width=160, no_color=True)
        self._began = time.monotonic()
        self._total_s = total_s
        self._past_s = 0.0
        self._bar: Progress | None = None
        if self.console.is_terminal and not plain:
            columns = (BarColumn(30), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
            self._bar = Progress(*columns, TextColumn("{task.description}"), console=self.console, transient=True)
            self._bar_id = self._bar.add_task("starting", total=total_s)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, text: str) -> None:
        self.console.print(f"{time.monotonic() - self._began:6.1f} s  {escape(text)}", soft_wrap=True)

    def begin(self, text: str) -> None:
        if self._bar:
            self._bar.update(self._bar_id, description=escape(text))

    def end(self, text: str, seconds: float) -> None:
        """A run is over that was expected to take so long."""
        self._past_s += seconds
        if self._bar:
            self._bar.update(self._bar_id, completed=self._past_s)
        share = min(100, 100 * self._past_s / max(1.0, self._total_s))
        self.say(text if self._bar else f"{share:3.0f} %  {text}")
