"""A metric with its samples, as it stands at the moment of a scrape."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]  # what follows the name, labels, value

# From a task that does nothing to one that takes a shift.
SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """`name` without _total, whatever the kind."""

    name: str
    kind: str
    help: str
    samples: tuple[Sample, ...]


def counter(name: str, help_: str, values: Iterable[tuple[Labels, float]]) -> Family:
    return Family(name, "counter", help_, tuple(("_total", labels, value) for labels, value in values))


def gauge(name: str, help_: str, values: Iterable[tuple[Labels, float]]) -> Family:
    return Family(name, "gauge", help_, tuple(("", labels, value) for labels, value in values))


class Histogram:
    """Counted by one thread, read by any: a scrape amid a batch may miss its last values, and counts none twice."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.sum += seconds

    def samples(self, labels: Labels) -> list[Sample]:
        total, below = self.sum, list(accumulate(self.counts))
        bounds = [*(_bound(seconds) for seconds in SECONDS), "+Inf"]
        buckets: list[Sample] = [
            ("_bucket", {**labels, "le": bound}, count) for bound, count in zip(bounds, below, strict=True)
        ]
        return [*buckets, ("_count", labels, below[-1]), ("_sum", labels, total)]


def histogram(name: str, help_: str, values: Iterable[tuple[Labels, Histogram]]) -> Family:
    samples = [sample for labels, one in values for sample in one.samples(labels)]
    return Family(name, "histogram", help_, tuple(samples))


def _bound(seconds: float) -> str:
    return repr(float(seconds))
