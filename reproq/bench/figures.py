"""What is measured, as values: figures, steps, and the bounds that a figure must keep."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reproq.models.errors import ReproqError

if TYPE_CHECKING:
    from reproq.bench.lab import Lab

Values = dict[str, Any]
"""Figure -> number; anything else that is worth keeping beside them stays in the raw file."""


class LeftOut(ReproqError):
    """This can't be measured here; the message says why."""


@dataclass(frozen=True)
class Bound:
    limit: float
    ratio: bool = True  # of the ratio, or of the value itself
    at_most: bool = False

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.limit:g}{' ×' if self.ratio else ''}"

    def holds(self, value: float | None, ratio: float | None) -> bool | None:
        judged = ratio if self.ratio else value
        if judged is None:
            return None
        return judged <= self.limit if self.at_most else judged >= self.limit


def at_least(limit: float) -> Bound:
    return Bound(limit)


def at_most(limit: float) -> Bound:
    return Bound(limit, ratio=False, at_most=True)


@dataclass(frozen=True)
class Figure:
    key: str
    title: str
    unit: str = "/s"
    against: str | None = None  # the figure that its ratio is to
    ideal: float | None = None  # or the number that its ratio is to
    against_title: str = ""
    bound: Bound | None = None


@dataclass(frozen=True)
class Step:
    name: str
    section: str
    run: Callable[[Lab], Values]
    figures: Sequence[Figure]
    seconds: float = 8  # about how long one run takes
    repeats: int | None = None  # None = as often as the session says
    full: bool = False  # not in the quick session
    local: bool = False  # the server must run on this machine
    peer: bool = False


@dataclass(frozen=True)
class Series:
    """The runs of one figure."""

    values: tuple[float, ...] = ()

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None


@dataclass(frozen=True)
class Results:
    series: Mapping[str, Series] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)  # step -> reason

    def value(self, key: str | None) -> float | None:
        return self.series.get(key or "", Series()).median

    def base(self, figure: Figure) -> float | None:
        return figure.ideal if figure.ideal is not None else self.value(figure.against)

    def ratio(self, figure: Figure) -> float | None:
        value, base = self.value(figure.key), self.base(figure)
        return value / base if value is not None and base else None
