"""The effects ledger: a file that handlers append to and that outlives them all."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from tests.faults.evidence import Execution, Line

KINDS = ("start", "beat", "effect", "end")


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class TornLine(Exception):
    """A line that nobody can have written whole."""


class Ledger:
    """Read as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._read = 0
        self._lines: list[Line] = []
        self._counts: Counter[str] = Counter()

    @property
    def lines(self) -> list[Line]:
        """All of them, the new ones included."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            *new, _unfinished = file.read().split(b"\n")
        self._read += sum(len(text) + 1 for text in new)
        fresh = [parse(text.decode()) for text in new]
        self._counts.update(line.kind for line in fresh)
        self._lines += fresh
        return self._lines

    def count(self, kind: str) -> int:
        _ = self.lines
        return self._counts[kind]

    def busy(self) -> dict[int, Execution]:
        """The processes that are in the middle of a task, as far as the ledger knows."""
        found: dict[int, Execution] = {}
        for line in self.lines[-2000:]:
            if line.kind == "start":
                found[line.pid] = line.execution
            elif line.kind == "end":
                found.pop(line.pid, None)
        return found

    def rate(self, since_ns: int, until_ns: int) -> float:
        """Ends a second between two moments."""
        ends = sum(line.kind == "end" and since_ns <= line.ns < until_ns for line in self.lines)
        return ends / ((until_ns - since_ns) / 1e9)


def parse(text: str) -> Line:
    kind, *numbers = text.split(" ")
    if kind not in KINDS or len(numbers) != 5 or not all(number.isdecimal() for number in numbers):
        raise TornLine(f"not a line of a ledger: {text!r}")
    return Line(kind, *map(int, numbers))
