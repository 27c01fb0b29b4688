"""What the gateway counts of itself, for whoever exports it: by route, method and status."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

BOUNDS_S = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)


@dataclass
class Counts:
    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)  # route, method, status
    seconds: Counter[tuple[str, float]] = field(default_factory=Counter)  # route, upper bound: not cumulative
    seconds_sum: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    tokens_refused: int = 0
    looks: int = 0
    look_seconds: float = 0.0
    waiting: int = 0  # now

    def answered(self, route: str, method: str, status: int, took_s: float) -> None:
        self.requests[route, method, status] += 1
        self.seconds[route, next((bound for bound in BOUNDS_S if took_s <= bound), float("inf"))] += 1
        self.seconds_sum[route] += took_s
