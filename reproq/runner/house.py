"""Housekeeping: one worker of all leads, by a lease in the database, and does once a minute what nobody waits for.

Nothing that a task needs depends on it. A leader that is frozen or cut off loses its lease, and what it still says
under its old term does nothing.
"""

from __future__ import annotations

import random
import time
from typing import Any

from reproq.log import Event, say
from reproq.queue import leader
from reproq.runner.desk import Desk, Errand
from reproq.runner.loop import Loop

_EVERY_S = 60.0
_LATER_S = 0.5


class House:
    """`desk` only asks who leads: chores have a line of their own, so that no outcome waits behind them."""

    def __init__(self, loop: Loop, desk: Desk, dsn: str, worker_id: str, lease_s: float) -> None:
        self._loop = loop
        self._desk = desk
        self._dsn = dsn
        self._chores: Desk | None = None
        self._worker_id = worker_id.encode()
        self._lease_s = lease_s
        self._term: int | None = None
        self._kept_at = 0.0
        self._closed = False

    def open(self) -> None:
        self._ask()

    def close(self) -> None:
        self._closed = True
        self._resign()

    def _ask(self) -> None:
        if not self._closed:
            self._desk.send(Errand(leader.lead(self._worker_id, self._lease_s), self._told, lost=self._not_told))

    def _not_told(self) -> None:
        self._resign()
        self._loop.after(self._lease_s / 3, self._ask)

    def _told(self, answer: tuple[int | None, float]) -> None:
        term, left_s = answer
        if self._closed:
            return
        if term is None:  # ask again when its lease is over, and not all at the same moment
            self._resign()
            self._loop.after(max(0.0, left_s) + random.uniform(0, _LATER_S), self._ask)
            return
        if term != self._term:
            say(Event.LEADING, f"this worker keeps house now (term {term})", term=term)
            self._term = term
            self._kept_at = 0.0
        if self._chores is None:
            self._chores = Desk(self._loop, self._dsn, "house")
            self._chores.open()
        now = time.monotonic()
        if not self._kept_at or now - self._kept_at >= _EVERY_S:
            self._kept_at = now
            self._chores.send(Errand(leader.keep_house(term), self._kept, lost=lambda: None))
        self._loop.after(self._lease_s / 3, self._ask)

    def _resign(self) -> None:
        self._term = None
        if self._chores is not None:
            self._chores.close()
            self._chores = None

    def _kept(self, done: dict[str, Any] | None) -> None:
        if done and any(done.values()):
            say(Event.HOUSE_KEPT, "kept house: " + ", ".join(f"{name} {count}" for name, count in done.items()), **done)
