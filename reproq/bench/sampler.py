"""Looks at the processes under test four times a second, and says afterwards what they used between two moments."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from reproq.bench import procfs

EVERY_S = 0.25
SHORTEST_S = 0.9
Parts = dict[str, list[int]]
"""What a process is for -> pids."""


@dataclass(frozen=True)
class Sample:
    at: float
    cpu: dict[str, float]
    rss: dict[str, float]
    count: dict[str, int]
    busy: float
    own: float


@dataclass
class Sampler:
    parts: Callable[[], Parts]
    samples: list[Sample] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.look()
        self._thread = threading.Thread(target=self._work, daemon=True, name="sampler")
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Before the processes are stopped: a dead one has no account any more."""
        if self._thread and not self._over.is_set():
            self._over.set()
            self._thread.join()
            self.look()

    def look(self) -> None:
        parts = self.parts()
        self.samples.append(
            Sample(
                time.time(),
                _cpu(parts),
                {name: sum(map(procfs.rss_mb, pids)) for name, pids in parts.items()},
                {name: len(pids) for name, pids in parts.items()},
                procfs.machine_busy_s(),
                time.process_time(),
            )
        )

    def _work(self) -> None:
        while not self._over.wait(EVERY_S):
            self.look()

    def between(self, start: float, end: float) -> tuple[Sample, Sample] | None:
        """The first and last look within a span of time; None if they are too near to say anything: CPU is accounted in
        hundredths of a second, and a task may be claimed long before the look and finished behind it."""
        inside = [sample for sample in self.samples if start <= sample.at <= end]
        return (inside[0], inside[-1]) if inside and inside[-1].at - inside[0].at >= SHORTEST_S else None

    def peak_mb(self) -> dict[str, float]:
        """The most that each part held, and `each_…` for one of its processes."""
        names = {name for sample in self.samples for name in sample.rss}
        peaks = {name: max(sample.rss.get(name, 0.0) for sample in self.samples) for name in names}
        each = {f"each_{name}": _largest_each(name, self.samples) for name in names}
        return {**peaks, **each}


def _cpu(parts: Parts) -> dict[str, float]:
    """What the guard has buried were children."""
    used = {name: procfs.total_cpu_s(pids) for name, pids in parts.items()}
    if "guard" in used and "child" in used:
        buried = sum(map(procfs.buried_cpu_s, parts["guard"]))
        used["guard"] -= buried
        used["child"] += buried
    return used


def _largest_each(name: str, samples: Iterable[Sample]) -> float:
    return max((s.rss[name] / s.count[name] for s in samples if s.count.get(name)), default=0.0)


def foreign_cores(first: Sample, last: Sample) -> float:
    """Cores that neither the processes under test nor this one used: other load makes figures worthless."""
    ours = sum(last.cpu.values()) - sum(first.cpu.values()) + last.own - first.own
    return max(0.0, (last.busy - first.busy - ours) / (last.at - first.at))


def cores() -> int:
    return len(os.sched_getaffinity(0))
