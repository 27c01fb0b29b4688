"""Is this worker alive, and is it ready for work? One place that knows, for whoever asks: a probe, systemd, a metric.

The loop's thread writes here and any thread may read: a value is replaced in one assignment and never changed. Whoever
reads while the loop is stuck reads what was last true, so every answer goes by the age of the loop's last turn first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

_STUCK_S = 10.0
_REPLACED_S = 2.0  # children are replaced all the time; a pool without one for longer is down


class Member(Protocol):
    ready: bool


class Place(Protocol):
    """A pool with its tasks, as far as health goes."""

    registered: bool

    @property
    def name(self) -> str: ...
    @property
    def members(self) -> Iterable[Member]: ...


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is missing, in the loop's own words of its last look."""

    down: tuple[str, ...] = ()  # pools of which no child is ready, or whose types the database hasn't heard
    database: bool = False


class Health:
    def __init__(self, lease_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stuck_s = min(_STUCK_S, lease_s / 3)
        self._seen: dict[str, float] = {}  # when each pool last had a child that was ready
        self._readiness = Readiness()
        self.turned_at = clock()  # the loop's last turn, monotonic
        self.draining = False

    # -- from the loop's thread ------------------------------------------------------------------------------------

    def look(self, places: Iterable[Place], *, guarded: bool, database: bool) -> None:
        """Some times a second."""
        down = tuple(place.name for place in places if not (guarded and self._is_up(place)))
        self._readiness = Readiness(down, database)

    def _is_up(self, place: Place) -> bool:
        now = self._clock()
        if any(child.ready for child in place.members):
            self._seen[place.name] = now
        return place.registered and now - self._seen.get(place.name, 0.0) <= _REPLACED_S

    # -- from any thread -------------------------------------------------------------------------------------------

    @property
    def silent_s(self) -> float:
        """How long ago the loop turned."""
        return self._clock() - self.turned_at

    @property
    def alive(self) -> bool:
        """The loop turns: several times a second, whatever tasks and the database do."""
        return self.silent_s <= self._stuck_s

    @property
    def ready(self) -> bool:
        """Children up, the database answering, not draining."""
        return not self.faults()

    def report(self) -> dict[str, object]:
        """What there is to know, for machines."""
        why, found = self.faults(), self._readiness
        parts = {"loop": self.alive, "database": found.database, "children": not found.down, "draining": self.draining}
        return {"ready": not why, **parts, "why": why}

    def faults(self) -> list[str]:
        """Why it isn't ready, for people."""
        found = self._readiness
        return [
            *([] if self.alive else [f"the loop has not turned for {self.silent_s:.0f} s"]),
            *(["draining"] if self.draining else []),
            *([] if found.database else ["the database does not answer"]),
            *(f"no child of pool {name} is ready" for name in found.down),
        ]
