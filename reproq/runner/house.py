"""Housekeeping: one worker of all leads, by a lease in the database, and does the chores: schedules when they are due,
and once a minute what nobody waits for.

Nothing that a task needs depends on it. A leader that is frozen or cut off loses its lease, and what it still says
under its old term does nothing.
"""

from __future__ import annotations

import random
import time
from typing import Any

from reproq.log import Event, say
from reproq.queue import leader
from reproq.queue.measure import Measure, measure
from reproq.runner.desk import Desk, Errand
from reproq.runner.loop import Loop, Timer
from reproq.runner.measures import Measures

_EVERY_S = 60.0
_LATER_S = 0.5
_PAUSE_S = 0.05


class House:
    """`desk` only asks who leads: chores have a line of their own, so that no outcome waits behind them."""

    def __init__(
        self,
        loop: Loop,
        desk: Desk,
        dsn: str,
        worker_id: str,
        *,
        lease_s: float,
        worker_timeout_s: float,
        measures: Measures | None = None,
    ) -> None:
        self._loop = loop
        self._desk = desk
        self._dsn = dsn
        self._worker_id = worker_id.encode()
        self._lease_s = lease_s
        self._worker_timeout_s = worker_timeout_s
        self._chores: Desk | None = None
        self._timer: Timer | None = None
        self._term: int | None = None
        self._swept_at = 0.0
        self._measures = measures
        self._next_measure: Timer | None = None
        self._closed = False

    @property
    def leads(self) -> bool:
        return self._term is not None

    def open(self) -> None:
        self._ask()

    def close(self) -> None:
        self._closed = True
        self._resign()

    def wake(self) -> None:
        """A schedule was changed: its next slot may be sooner than we think."""
        if self._chores is not None and self._chores.idle:
            self._do_chores()

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
            self._lead(term)
        self._loop.after(self._lease_s / 3, self._ask)

    def _lead(self, term: int) -> None:
        say(Event.LEADING, f"this worker keeps house now (term {term})", term=term)
        self._resign()
        self._term = term
        self._swept_at = 0.0
        self._chores = Desk(self._loop, self._dsn, "house")
        self._chores.open()
        self._do_chores()
        self._measure()

    def _resign(self) -> None:
        self._term = None
        for timer in (self._timer, self._next_measure):
            if timer is not None:
                timer.cancel()
        if self._measures is not None:
            self._measures.forget()
        if self._chores is not None:
            self._chores.close()
            self._chores = None

    def _do_chores(self) -> None:
        if self._chores is None or self._term is None:
            return
        now = time.monotonic()
        everything = not self._swept_at or now - self._swept_at >= _EVERY_S
        if everything:
            self._swept_at = now
        call = leader.keep_house(self._term, self._worker_timeout_s, everything=everything)
        self._chores.send(Errand(call, self._done, lost=lambda: self._again_in(_LATER_S)))

    def _done(self, done: dict[str, Any] | None) -> None:
        if done is None:  # the term is over; the next answer about it says who leads
            return
        again_in_s = done.pop("again_in_s")
        if again_in_s is None:  # more to forget than one call may
            self._swept_at, again_in_s = 0.0, _PAUSE_S
        told = {name: count for name, count in done.items() if count}
        if told:
            words = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in told.items())
            say(Event.HOUSE_KEPT, f"kept house: {words}", **told)
        self._again_in(min(again_in_s, max(0.0, self._swept_at + _EVERY_S - time.monotonic())))

    def _again_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.after(max(_PAUSE_S, seconds), self._do_chores)

    def _measure(self) -> None:
        """On the chores' line: schedules wait for it, so it may take a twentieth of the time."""
        measures, asked_at = self._measures, time.monotonic()
        if measures is None or self._chores is None:
            return

        def done(measured: list[Measure]) -> None:
            self._measure_in(measures.take(measured))

        def lost() -> None:
            self._measure_in(measures.took(time.monotonic() - asked_at))

        self._chores.send(Errand(measure(), done, lost=lost))

    def _measure_in(self, seconds: float) -> None:
        if self._next_measure is not None:
            self._next_measure.cancel()
        self._next_measure = self._loop.after(seconds, self._measure)
