"""Tells the service manager how the worker is. Only the loop's thread does: a loop that is stuck must fall silent.

Every message says all that is true, so that one that is lost is made up for by the next.
"""

from __future__ import annotations

import time

from reproq.notify import notify, watchdog_s
from reproq.runner.health import Health

_OFTEN_S = 1.0
_SELDOM_S = 10.0
_LONGER_US = 30_000_000  # what a stop may still take; said again and again, as long as the drain goes on


class Herald:
    def __init__(self, health: Health) -> None:
        self._health = health
        self._seldom_s = min(_SELDOM_S, (watchdog_s() or _SELDOM_S) / 4)
        self._often_s = min(_OFTEN_S, self._seldom_s)
        self._phase = (False, False)
        self._told = ""
        self._told_at = 0.0

    def tell(self, started: bool, doing: str) -> None:
        """Some times a second. A new phase is news at once, another status a little later."""
        now, phase = time.monotonic(), (started, self._health.draining)
        state = self._state(started, doing)
        patience = 0.0 if phase != self._phase else self._often_s if state != self._told else self._seldom_s
        if now - self._told_at >= patience:
            self._phase, self._told, self._told_at = phase, state, now
            notify(state)

    def _state(self, started: bool, doing: str) -> str:
        if self._health.draining:
            return f"STOPPING=1\nEXTEND_TIMEOUT_USEC={_LONGER_US}\nSTATUS={doing}"
        faults = "; ".join(self._health.faults())
        ready = "READY=1\nWATCHDOG=1\n" if started else ""
        return f"{ready}STATUS={f'not ready: {faults}' if faults else doing}"
