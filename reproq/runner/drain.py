"""The end of a worker, in one visible order.

1. claim nothing more, give back what no child has begun;
2. let the running tasks finish, `drain_timeout` long;
3. TERM, `kill_grace`, KILL; only when the guard has told that a child is gone does its task go back;
4. everything answered by the database: children are told to stop, the worker's row goes, the loop ends.
A second signal skips the waiting of 2 and 3.
"""

from __future__ import annotations

import logging
import signal
import time
from typing import TYPE_CHECKING

from reproq.log import Event, say
from reproq.models.execution import End, Execution
from reproq.queue import workers
from reproq.runner.desk import Errand

if TYPE_CHECKING:
    from reproq.runner.runner import Runner

_CHILD_PATIENCE_S = 1.0
_AWAY_S = 2.0


class Drain:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.under_way = False
        self._began = 0.0
        self._term_at = 0.0
        self._kill_at = 0.0
        self._give_up_at = 0.0
        self._status: int | None = None
        self._forced = False
        self._unregistering = False
        self._unregistered = False
        self._children_until = 0.0

    def asked(self) -> None:
        """By a signal."""
        if not self.under_way:
            self.begin("a signal")
        else:
            self.force()

    def begin(self, reason: str, status: int | None = None) -> None:
        if self.under_way:
            return
        settings, now = self._runner.settings, time.monotonic()
        self.under_way = True
        self._status = status
        self._began = now
        self._term_at = now + settings.drain_timeout_s
        self._kill_at = self._term_at + settings.kill_grace_s
        self._give_up_at = self._kill_at + settings.lease_s
        say(Event.DRAIN_STARTED, f"draining because of {reason}: {len(self._busy())} tasks are running", reason=reason)
        self._runner.claims.stop()
        self._runner.floor.close()
        self._runner.books.give_back_waiting()

    def force(self) -> None:
        now = time.monotonic()
        if not self._forced:
            say(Event.DRAIN_FORCED, f"second signal: ending {len(self._busy())} running tasks now", logging.WARNING)
        self._forced = True
        self._term_at = self._kill_at = now
        self._give_up_at = now + 1.5

    def turn(self) -> None:
        if self._runner.exit_status is not None:
            return
        now = time.monotonic()
        busy = self._busy()
        if busy and now >= self._term_at:
            self._end(busy, now)
        if not busy and self._settled():
            self._leave(now)
        elif now >= self._give_up_at or (not busy and self._nothing_to_wait_for(now)):
            unsure = now >= self._give_up_at or self._runner.claims.unsure
            self._runner.exit_status = 1 if unsure else (self._status or 0)

    def _nothing_to_wait_for(self, now: float) -> bool:
        """The database is away, and this worker holds nothing that it could tell it."""
        runner = self._runner
        away = not runner.claim_desk.connected and not runner.finish_desk.connected
        return away and now >= self._began + _AWAY_S and not runner.leases and not runner.books.finishes.pending

    def _busy(self) -> list[Execution]:
        return [child.execution for s in self._runner.stations for child in s.pool.busy if child.execution is not None]

    def _end(self, busy: list[Execution], now: float) -> None:
        number = signal.SIGKILL if now >= self._kill_at else signal.SIGTERM
        for station in self._runner.stations:
            for child in station.pool.busy:
                station.pool.hear(child)  # it may have ended, and another have begun
                execution = child.execution
                if execution is None or (execution.end is not None and number != signal.SIGKILL):
                    continue
                execution.end = execution.end or End.DRAINED
                child.retiring = True
                self._runner.keeper.kill(child, number)
        if number == signal.SIGKILL:
            self._kill_at = now + 1.0  # once more, should the order have been lost

    def _settled(self) -> bool:
        """Whether the database has answered for everything that was claimed."""
        runner = self._runner
        return not (
            runner.claims.claiming or runner.books.finishes.pending or runner.leases or runner.claim_desk.waiting
        )

    def _leave(self, now: float) -> None:
        if not self._unregistering:
            self._unregistering = True
            self._children_until = now + _CHILD_PATIENCE_S
            call = workers.unregister(self._runner.worker_id.encode())
            self._runner.finish_desk.send(
                Errand(call, lambda _none: self._set_unregistered(), lost=self._set_unregistered)
            )
            self._retire_children()
        children_gone = self._forced or not any(station.pool.children for station in self._runner.stations)
        if (self._unregistered or not self._runner.finish_desk.connected) and (
            children_gone or now >= self._children_until
        ):
            self._runner.exit_status = self._status if self._status is not None else 0

    def _retire_children(self) -> None:
        for station in self._runner.stations:
            for child in list(station.pool.children.values()):
                station.pool.retire(child)

    def _set_unregistered(self) -> None:
        self._unregistered = True
