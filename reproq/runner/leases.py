"""What this worker holds, and until when it is ours for sure.

A deadline is the moment (CLOCK_BOOTTIME) at which the last accepted claim or heartbeat was SENT, plus the lease, less a
margin: the database's clock started later than that, so its lease ends later than ours. The guard kills by it even when
this process is stopped, so at every moment the guard's deadline is no later than that of any task a child may have.
It is armed while nothing is held, too: so a new claim finds it armed, and no task waits for the guard to hear.
Claims arrive on the loop's thread and heartbeats on another one: both change the books under one lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from reproq.models.execution import Execution

_TOO_LATE_NS = 600_000_000  # the guard kills half a second before the deadline: nothing may begin so near to it

Tell = Callable[[int | None, dict[str, int]], bool]


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Leases:
    def __init__(self, lease_s: float, tell_guard: Tell) -> None:
        self._ours_ns = int((lease_s - max(1.0, lease_s / 6)) * 1e9)
        self._tell = tell_guard
        self._lock = threading.Lock()
        self._held: dict[tuple[int, int], Execution] = {}
        self._guarded: int | None = None
        self._sure_until = 0

    def __len__(self) -> int:
        return len(self._held)

    def all(self) -> list[Execution]:
        return list(self._held.values())

    def holds(self, execution: Execution) -> bool:
        return (execution.id, execution.claim_no) in self._held

    def add(self, executions: Iterable[Execution], sent_ns: int) -> None:
        deadline = sent_ns + self._ours_ns
        with self._lock:
            if not self._held:
                self._sure_until = deadline
            for e in executions:
                e.deadline = deadline
                self._held[e.id, e.claim_no] = e
            now = boottime_ns()
            if self._guarded is None or deadline < self._guarded:
                self._guard(deadline, {})
            elif self._guarded <= now:  # it has killed by that one; what begins from now on needs another
                live = (e.deadline for e in self.all() if not e.over and e.deadline > now)
                self._guard(min(live, default=deadline), {})

    def are_sure(self) -> bool:
        """Whether nothing is held whose lease may have run out since a claim or a heartbeat was last accepted."""
        return not self._held or boottime_ns() < self._sure_until

    def drop(self, execution: Execution) -> None:
        self._held.pop((execution.id, execution.claim_no), None)

    def kept(self, executions: Iterable[Execution], busy: Iterable[Execution], sent_ns: int) -> None:
        """After a heartbeat: these are ours for longer; those are locked by somebody, and their old deadline stands."""
        with self._lock:
            self._sure_until = sent_ns + self._ours_ns
            for e in executions:
                e.deadline = self._sure_until
            late = {id(e): e for e in busy}
            but = {e.child_key: e.deadline for e in late.values() if e.child_key is not None and not e.over}
            # One that is over is in no child: while its finish waits, it must not cost that child's next task its life.
            deadlines = [e.deadline for e in self.all() if id(e) not in late and not e.over]
            self._guard(min(deadlines, default=sent_ns + self._ours_ns), but)

    def rest(self) -> None:
        """Nothing is held: an old deadline must not cost idle children their lives while the database is away."""
        if not self._held and self._guarded is not None:
            with self._lock:
                if not self._held:
                    self._guard(None, {})

    def overdue(self) -> bool:
        """Whether the guard had a reason to end."""
        return self._guarded is not None and boottime_ns() >= self._guarded

    def rearm(self) -> None:
        """A new guard knows nothing yet."""
        with self._lock:
            self._guard(min((e.deadline for e in self.all() if not e.over), default=None), {})

    def may_begin(self, execution: Execution) -> bool:
        """Whether the lease lasts, and the guard watches over it."""
        return self._guarded is not None and boottime_ns() + _TOO_LATE_NS < self._guarded <= execution.deadline

    def _guard(self, at: int | None, but: dict[str, int]) -> None:
        if self._tell(at, but):
            self._guarded = at
