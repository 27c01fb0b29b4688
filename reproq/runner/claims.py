"""When to claim, how much, and when to lie down.

Work is claimed a little ahead of the pools: what their recent rate can start within a tenth of a second. Each pool asks
when it has room; one that got nothing waits 5, 20, 80, 320 ms and then the poll interval between its questions.

When nobody got anything the worker lies down: it commits a sleep mark (so that enqueues notify it), and then looks
once more: what is committed after the mark wakes it, what was committed before it is seen. A scheduled task ends the
sleep when it falls due. What looks cost, and how often they may be made, is queues.claim's to know, by its hints.

A claim takes back all leases that ran out. So after an outage it waits until the heartbeat has been accepted: else it
would take back our own tasks, whose results are on their way.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Protocol

from reproq.config import Settings
from reproq.log import Event, say
from reproq.models.execution import Execution
from reproq.queue import claim as sql
from reproq.queue import lease as lease_sql
from reproq.queue.claim import Claimed, Scope
from reproq.runner.crew import MAX_BATCH, Station, not_ours
from reproq.runner.desk import Desk, Errand
from reproq.runner.leases import Leases, boottime_ns

_MARK_S = 20.0
_RECLAIM_EVERY_S = 5.0
_UNSURE_S = 0.1
_BLOATED_MS = 50.0
_QUIET_S = 1.0


class Takes(Protocol):
    def take(self, executions: list[Execution]) -> dict[Station, int]: ...
    def nothing_found(self) -> None: ...
    def congested(self) -> bool: ...
    def room(self) -> int: ...


class Claims:
    def __init__(
        self,
        desk: Desk,
        scope: Scope,
        settings: Settings,
        leases: Leases,
        stations: list[Station],
        taker: Takes,
    ) -> None:
        self._desk = desk
        self._scope = scope
        self._lease_s = settings.lease_s
        self._poll_s = settings.poll_interval_s
        self._leave_unknown = settings.leave_unknown
        self._leases = leases
        self._stations = stations
        self._taker = taker
        self._hints: bytes | None = None
        self._look = False  # the next claim is to look for work wherever it may be
        self._found_at = 0.0
        self._last_at = 0.0
        self._marked_until = 0.0
        self._due_at: float | None = None
        self._due_unknown = False
        self._slow_said_at = 0.0
        self.claiming = False
        self.unsure = False  # a claim's answer was lost, and what it may have leased isn't called back yet
        self.stopped = False
        self.measured = False  # somebody wants to know how long tasks have waited
        self.asked = self.empty = self.claimed = 0

    def wake(self) -> None:
        """Somebody enqueued, or a task falls due: look at once, and from the head if that doesn't take long."""
        self._look = True
        if self._due_at is not None and time.monotonic() >= self._due_at:
            self._due_at = None
        for station in self._stations:
            station.wake()

    def retry_noted(self) -> None:
        """A task of ours went back for later: the mark, which may be older or on its way, doesn't know when."""
        self._due_unknown = True
        if self._marked_until:
            self.wake()

    def turn(self, now: float) -> float:
        """Called in every turn of the loop, cheap when there is nothing to do. Answers how long it can wait."""
        for station in self._stations:
            station.count(now)
        if self.claiming or self.stopped or not self._desk.idle or self._taker.congested():
            return _RECLAIM_EVERY_S
        if self._due_at is not None and now >= self._due_at:
            self.wake()
        pools = self.wants()
        asking = [station.next_claim_at for station, pool in zip(self._stations, pools, strict=True) if pool["free"]]
        first = min(asking, default=now + _RECLAIM_EVERY_S)
        if first <= now or now - self._last_at >= _RECLAIM_EVERY_S:
            if not self._leases.are_sure():
                return _UNSURE_S
            self._claim(now, min(MAX_BATCH, sum(pool["free"] for pool in pools)), pools)
            return _RECLAIM_EVERY_S
        return (first if self._due_at is None else min(first, self._due_at)) - now

    def stop(self) -> None:
        self.stopped = True

    def wants(self) -> list[dict[str, Any]]:
        """The pools as SQL wants to see them, station by station."""
        return [station.want(self._leave_unknown) for station in self._stations]

    def as_sql(self, pools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*not_ours(self._stations), *pools]

    def _claim(self, now: float, wanted: int, pools: list[dict[str, Any]]) -> None:
        self.claiming = True
        self._last_at = now
        look = self._look and wanted > 0
        call = sql.claim(
            self._scope,
            self._lease_s,
            wanted,
            self._hints,
            self.as_sql(pools),
            self._taker.room(),
            look=look,
            measured=self.measured,
            traced=any(station.traces for station in self._stations),
        )
        if look:
            self._look = False
        errand = Errand(call, lambda _answer: None, lost=self._lost)
        errand.done = lambda claimed: self._claimed(claimed, pools, look, errand.sent_ns)
        self._desk.send(errand)

    def _claimed(self, claimed: Claimed, pools: list[dict[str, Any]], looked: bool, sent_ns: int) -> None:
        self.claiming = False
        self._hints = claimed.hints
        self._note_slow_look(claimed.hints)
        found = claimed.executions
        self.asked += 1
        self.empty += not found
        self.claimed += len(found)
        now = time.monotonic()
        shares: dict[Station, int] = {}
        if found:
            self._marked_until = 0.0
            self._found_at = now
            self._leases.add(found, sent_ns + _before_lease_ns(claimed.hints, sent_ns))
            shares = self._taker.take(found)
        asking = [(station, pool) for station, pool in zip(self._stations, pools, strict=True) if pool["free"]]
        for station, pool in asking:
            station.got(shares.get(station, 0), pool["free"], now, self._poll_s)
        if asking and not found:
            self._found_nothing(now, [station for station, _pool in asking], looked)

    def _found_nothing(self, now: float, asking: list[Station], looked: bool) -> None:
        """To lie down is to look at all that is scheduled. Where that takes long, a pool that finds nothing must not do
        it in between any two claims of others that are at work."""
        all_asked = len(asking) == len(self._stations)
        if looked and not all_asked:
            self._look = True  # for the others
        is_slow = _milliseconds(self._hints, b'"took_ms": ') > _BLOATED_MS
        if is_slow and not all_asked and now < self._found_at + _QUIET_S:
            for station in asking:
                station.next_claim_at = min(station.next_claim_at, self._found_at + _QUIET_S)
        elif not any(station.waiting for station in self._stations):
            self._lie_down(now)

    def _lie_down(self, now: float) -> None:
        """The mark first; only what is committed after it is sure to wake us, so look again before sleeping."""
        if self._due_unknown or now >= self._marked_until - _MARK_S / 2:
            fresh = now >= self._marked_until
            self._due_unknown = False
            call = sql.lie_down(self._scope, _MARK_S)
            self._desk.send(Errand(call, lambda due_in: self._marked(due_in, fresh), lost=lambda: None))
        else:
            self._taker.nothing_found()

    def _marked(self, due_in_s: float | None, fresh: bool) -> None:
        now = time.monotonic()
        self._marked_until = now + _MARK_S
        if fresh or self._due_unknown:
            self.wake()
        self._due_at = None if due_in_s is None else now + max(0.0, due_in_s)

    def _lost(self) -> None:
        """The claim may have been committed and its answer lost: nobody runs those rows until they go back."""
        self.claiming = False
        self.unsure = True
        self._hints = None
        self._marked_until = 0.0  # if it found anything, it took the mark away
        self._desk.send(
            Errand(lease_sql.recall(self._scope.worker_id, self._leases.all()), self._recalled, lost=self._lost),
            first=True,
        )

    def _recalled(self, count: int) -> None:
        self.unsure = False
        if count:
            say(
                Event.CLAIM_FAILED,
                f"{count} claimed tasks whose claim was not answered went back",
                logging.WARNING,
                count=count,
            )

    def _note_slow_look(self, hints: bytes | None) -> None:
        took_ms = _milliseconds(hints, b'"took_ms": ')
        now = time.monotonic()
        if took_ms > _BLOATED_MS and now - self._slow_said_at > 60:
            self._slow_said_at = now
            say(
                Event.CLAIM_INDEX_BLOATED,
                f"looking for work from the head of the index took {took_ms:.0f} ms, so the next look comes later, and "
                "urgent tasks may wait for it: a busy machine, or an old snapshot (a long transaction) that keeps "
                "vacuum from cleaning the index: reproq doctor names it",
                logging.WARNING,
                took_ms=took_ms,
            )


def _before_lease_ns(hints: bytes | None, sent_ns: int) -> int:
    """How long after it was sent the claim leased its first row, at least: it may have looked for work for longer than
    a lease lasts. Neither longer than we know of nor less than nothing, should the database's clock have been set."""
    return max(0, min(int(_milliseconds(hints, b'"before_ms": ') * 1e6), boottime_ns() - sent_ns))


def _milliseconds(hints: bytes | None, key: bytes) -> float:
    if hints is None or (at := hints.find(key)) < 0:
        return 0.0
    at += len(key)
    return float(hints[at : hints.find(b"}", at)].split(b",")[0])
