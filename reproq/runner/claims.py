"""When to claim, how much, and when to lie down.

Work is claimed a little ahead of the pools: what their recent rate can start within a tenth of a second. A claim that
finds nothing leads to the sleep of DESIGN: a committed sleep mark (so that enqueues notify us), a full look, polls at
+5, 20, 80 and 320 ms, then one every poll interval, or when the next scheduled task falls due.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Protocol

from reproq.log import Event, say
from reproq.models.execution import Execution
from reproq.queue import claim as sql
from reproq.queue import lease as lease_sql
from reproq.queue.claim import Claimed, Scope
from reproq.runner.crew import MAX_BATCH, Station
from reproq.runner.desk import Desk, Errand
from reproq.runner.leases import Leases

_STEPS_S = (0.005, 0.02, 0.08, 0.32)
_SHORT_PAUSE_S = 0.002
_MARK_S = 20.0
_RECLAIM_EVERY_S = 5.0
_BLOATED_MS = 50.0


class Takes(Protocol):
    def take(self, executions: list[Execution]) -> None: ...
    def nothing_found(self) -> None: ...


class Claims:
    def __init__(
        self, desk: Desk, scope: Scope, lease_s: float, poll_s: float, leases: Leases, taker: Takes, leave_unknown: bool
    ) -> None:
        self._desk = desk
        self._scope = scope
        self._lease_s = lease_s
        self._poll_s = poll_s
        self._leases = leases
        self._taker = taker
        self._hints: bytes | None = None
        self.claiming = False
        self._next_at = 0.0
        self._last_at = 0.0
        self._step = 0
        self._marked_until = 0.0
        self._due_at: float | None = None
        self._slow_said_at = 0.0
        self._leave_unknown = leave_unknown
        self.stopped = False

    @property
    def next_at(self) -> float:
        return self._next_at

    def wake(self) -> None:
        """Somebody enqueued: look at once, and from the head."""
        self._hints = None
        self._next_at = 0.0

    def turn(self, now: float, stations: list[Station]) -> None:
        """Called in every turn of the loop; cheap when there is nothing to do."""
        if self.claiming or self.stopped or now < self._next_at or not self._desk.idle:
            return
        pools = [station.want(self._leave_unknown) for station in stations]
        wanted = min(MAX_BATCH, sum(pool["free"] for pool in pools))
        if wanted > 0 or now - self._last_at >= _RECLAIM_EVERY_S:
            self._claim(now, wanted, pools)

    def stop(self) -> None:
        self.stopped = True

    def _claim(self, now: float, wanted: int, pools: list[dict[str, Any]]) -> None:
        self.claiming = True
        self._last_at = now
        hints = self._hints if wanted else None
        call = sql.claim(self._scope, self._lease_s, wanted, hints, pools)
        errand = Errand(call, lambda _answer: None, lost=self._lost)
        errand.done = lambda claimed: self._claimed(claimed, wanted, errand.sent_ns)
        self._desk.send(errand)

    def _claimed(self, claimed: Claimed, wanted: int, sent_ns: int) -> None:
        self.claiming = False
        if claimed.executions:
            self._hints = claimed.hints
            self._note_slow_look(claimed.hints)
            self._step = 0
            self._marked_until = 0.0
            if len(claimed.executions) < wanted:
                self._next_at = time.monotonic() + _SHORT_PAUSE_S
            self._leases.add(claimed.executions, sent_ns)
            self._taker.take(claimed.executions)
        elif wanted:
            self._lie_down()

    def _lie_down(self) -> None:
        """The mark first; only what is committed after it is sure to wake us, so look again before sleeping."""
        self._hints = None
        now = time.monotonic()
        if now >= self._marked_until - _MARK_S / 2:
            self._desk.send(Errand(sql.lie_down(self._scope, _MARK_S), self._marked, lost=lambda: None))
            return
        pause = _STEPS_S[self._step] if self._step < len(_STEPS_S) else self._poll_s
        self._step += 1
        due = self._due_at
        self._next_at = min(now + pause, due) if due is not None and due > now else now + pause
        self._taker.nothing_found()

    def _marked(self, due_in_s: float | None) -> None:
        now = time.monotonic()
        fresh = self._marked_until < now
        self._marked_until = now + _MARK_S
        self._due_at = None if due_in_s is None else now + due_in_s
        self._next_at = 0.0
        if fresh:
            self._step = 0

    def _lost(self) -> None:
        """The claim may have been committed and its answer lost: nobody runs those rows until they go back."""
        self.claiming = False
        self._hints = None
        self._desk.send(
            Errand(lease_sql.recall(self._scope.worker_id, self._leases.all()), self._recalled, lost=self._lost),
            first=True,
        )

    def _recalled(self, count: int) -> None:
        if count:
            say(
                Event.CLAIM_FAILED,
                f"{count} claimed tasks whose claim was not answered went back",
                logging.WARNING,
                count=count,
            )

    def _note_slow_look(self, hints: bytes | None) -> None:
        if hints is None or (at := hints.find(b'"took_ms": ')) < 0:
            return
        took_ms = float(hints[at + 11 : hints.find(b"}", at)].split(b",")[0])
        now = time.monotonic()
        if took_ms > _BLOATED_MS and now - self._slow_said_at > 60:
            self._slow_said_at = now
            say(
                Event.CLAIM_INDEX_BLOATED,
                f"looking for work from the head of the index took {took_ms:.0f} ms; an old snapshot (a long "
                "transaction) may keep vacuum from cleaning it: see reproq doctor",
                logging.WARNING,
                took_ms=took_ms,
            )
