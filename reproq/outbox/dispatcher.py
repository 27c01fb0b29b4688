"""A dispatcher: claims events for each sink, has them carried, tells the database what became of them.

One thread speaks with the database; each sink has couriers of its own, so that a slow one is nobody else's affair. Any
number of dispatchers may run side by side: they share nothing but rows. One that dies leaves claims that run out.

Its end, in order: claim no more; what is under way may finish for `drain_timeout`; everything else goes back; what was
answered is told. A second signal skips the waiting.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import time
import uuid
from collections.abc import Mapping

from reproq import signals
from reproq.config import DispatchSettings
from reproq.executor import kernel
from reproq.log import Event, say
from reproq.outbox.addresses import Gate
from reproq.outbox.bell import Bell
from reproq.outbox.counter import Counter, GaveUp
from reproq.outbox.courier import Crew, Outcome, Parcel, runs
from reproq.outbox.post import tls_context
from reproq.outbox.secrets import Keyring
from reproq.outbox.words import say_outcome
from reproq.queue import outbox
from reproq.queue.outbox import Delivery, Sink

_RUN_LENGTH = 20  # events of one subject in one parcel
_AHEAD = 8  # per courier: what is claimed before it can be sent
_MARK_S = 60.0
_Told = tuple[Sink, list[tuple[Delivery, Outcome]]]


class Lane:
    """What a dispatcher holds for one sink."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.in_hand = 0
        self.after: str | None = None


class Dispatcher:
    def __init__(self, dsn: str, settings: DispatchSettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._gate = Gate(settings.allow_private)
        self._context = tls_context(settings.ca_file)
        self._keyring = Keyring(environ)
        self._bell = Bell()
        self._counter = Counter(dsn, self._nap)
        self._id = f"dispatcher/{socket.gethostname()[:100]}/{os.getpid()}/{uuid.uuid4()}"
        self._told: queue.SimpleQueue[_Told] = queue.SimpleQueue()
        self._lanes: dict[str, Lane] = {}
        self._sinks: list[Sink] = []
        self._absent: set[str] = set()  # named at start, but no enabled sink is called so
        self._quiet: set[str] = set()  # sinks that had nothing to be claimed when they were asked last
        self._looked_at: float | None = None
        self._marked_at: float | None = None
        self._drain_until: float | None = None

    def run(self) -> int:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # whoever runs with our uid may not read our secrets
        self._bell.on(signals.stopping())
        say(Event.DISPATCHER_STARTED, self._describe(), pid=os.getpid())
        try:
            self._work()
            self._drain()
        except GaveUp as problem:
            say(Event.DATABASE_LOST, str(problem), logging.WARNING)
        finally:
            self._counter.close()
            self._bell.close()
        return self._farewell()

    def _work(self) -> None:
        while not self._bell.stops_asked:
            moved = self._tell()
            moved |= self._claim_for_all()
            if moved:
                self._wake_up()
            elif self._told.empty():
                if self._settings.until_empty and not self._holding() and self._nothing_left():
                    return
                self._rest()

    def _drain(self) -> None:
        self._begin_drain()
        while self._holding() and self._bell.stops_asked < 2 and self._drain_left() > 0:
            if not self._tell():
                self._bell.wait(self._drain_left())
        self._tell()
        self._wake_up()

    def _begin_drain(self) -> None:
        if self._drain_until is None:
            say(Event.DRAIN_STARTED, f"claiming no more; {self._holding()} events are claimed")
            self._drain_until = time.monotonic() + self._settings.drain_timeout_s
            for lane in self._lanes.values():
                lane.crew.stop()

    def _drain_left(self) -> float:
        return 0.0 if self._drain_until is None else self._drain_until - time.monotonic()

    def _farewell(self) -> int:
        left = self._holding()
        if left:
            words = f"{left} claimed events are left to their lease: another dispatcher gets them after it"
            say(Event.DRAIN_FORCED, words, logging.WARNING, events=left)
        unsent = self._keyring.missing or self._absent
        status = 1 if left or (self._settings.until_empty and unsent) else 0
        say(Event.DISPATCHER_STOPPED, f"dispatcher stopped with status {status}", status=status)
        return status

    def _holding(self) -> int:
        return sum(lane.in_hand for lane in self._lanes.values())

    def _nothing_left(self) -> bool:
        """Neither due, nor claimed by anybody, nor waiting for a retry. A sink without its secret isn't waited for."""
        sinks = self._counter.ask(outbox.dispatch_sinks(self._settings.sinks))
        return not any(sink.waiting and sink.name not in self._keyring.missing for sink in sinks)

    # -- outcomes

    def _report(self, sink: Sink, told: list[tuple[Delivery, Outcome]]) -> None:
        """By a courier's thread."""
        self._told.put((sink, told))
        self._bell.ring()

    def _tell(self) -> bool:
        """Everything that couriers have reported, one call for each sink."""
        by_sink: dict[str, list[tuple[Delivery, Outcome]]] = {}
        while not self._told.empty():
            sink, told = self._told.get()
            by_sink.setdefault(sink.name, []).extend(told)
        for name, told in by_sink.items():
            outcomes = [{"event_number": one.number, "claim_no": one.claim_no, **outcome} for one, outcome in told]
            answers = self._counter.ask(outbox.finish_deliveries(name, outcomes))
            self._lanes[name].in_hand -= len(told)
            self._quiet.discard(name)
            for one, outcome in told:
                say_outcome(name, one, outcome, answers.get((one.number, one.claim_no), "lost"))
        return bool(by_sink)

    # -- claims

    def _claim_for_all(self) -> bool:
        self._look_at_sinks()
        claimed = [self._claim_for(sink) for sink in self._sinks if sink.name not in self._quiet]
        return any(claimed)

    def _look_at_sinks(self) -> None:
        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at >= self._settings.poll_interval_s:
            self._looked_at = now
            sinks = self._counter.ask(outbox.dispatch_sinks(self._settings.sinks))
            self._note_absent({sink.name for sink in sinks})
            self._sinks = [sink for sink in sinks if sink.waiting and sink.resume_in_s <= 0]
            self._quiet.clear()

    def _note_absent(self, there: set[str]) -> None:
        """Says once what is missing; it may still come."""
        absent = set(self._settings.sinks) - there
        for name in sorted(absent - self._absent):
            words = f"nothing is sent to {name}: no enabled sink is called so; see `reproq dispatch sinks list`"
            say(Event.SINK_UNUSABLE, words, logging.ERROR, sink=name)
        self._absent = absent

    def _claim_for(self, sink: Sink) -> bool:
        """False: there was nothing to be had, or nobody who could carry it."""
        lane = self._lanes.get(sink.name) or self._open_lane(sink.name)
        batched = sink.mode == "batched"
        most = sink.batch_size if batched else self._settings.concurrency * _AHEAD
        room = (self._settings.concurrency * most if batched else most) - lane.in_hand
        if room < (most if batched else most // 2):
            return False
        if (keys := self._keyring.keys(sink)) is None:
            self._quiet.add(sink.name)
            return False
        asked_at = time.monotonic()
        run_length = most if batched else _RUN_LENGTH
        deliveries: list[Delivery] = self._counter.ask(
            outbox.claim_deliveries(sink.name, self._settings.lease_s, min(room, most), run_length, lane.after)
        )
        if not deliveries:
            self._quiet.add(sink.name)
            return False
        lane.in_hand += len(deliveries)
        lane.after = next((one.in_order_of for one in reversed(deliveries) if one.in_order_of), lane.after)
        for run in [deliveries] if batched else runs(deliveries):
            lane.crew.carry(Parcel(sink, keys, run, asked_at + run[0].left_s))
        return True

    def _open_lane(self, name: str) -> Lane:
        crew = Crew(self._settings.concurrency, self._gate, self._context, self._report)
        lane = self._lanes[name] = Lane(crew)
        return lane

    # -- waiting

    def _rest(self) -> None:
        """Until an outcome, a signal, a notification, or the next look is due."""
        now = time.monotonic()
        if not self._holding() and (self._marked_at is None or now - self._marked_at > _MARK_S / 2):
            self._marked_at = now
            self._counter.ask(outbox.rest_dispatcher(self._id, _MARK_S))
            self._looked_at = None  # at what was published before the mark could be seen
            return
        self._bell.wait((self._looked_at or now) + self._settings.poll_interval_s - now, self._counter.fileno())
        if self._counter.was_notified():
            self._looked_at = None

    def _wake_up(self) -> None:
        """Nobody has to notify who is awake."""
        if self._marked_at is not None:
            self._marked_at = None
            self._counter.ask(outbox.rest_dispatcher(self._id, None))

    def _nap(self, seconds: float) -> None:
        """While the database is away. Couriers go on; what they tell is kept."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._bell.wait(left)
            if not self._bell.stops_asked:
                continue
            self._begin_drain()
            if self._bell.stops_asked >= 2 or not self._holding() or self._drain_left() <= 0:
                raise GaveUp("stopped while the database was away")

    def _describe(self) -> str:
        sinks = ", ".join(self._settings.sinks) or "every sink"
        private = ", ".join(map(str, self._settings.allow_private))
        return f"dispatcher started: {sinks}" + (f"; private networks: {private}" if private else "")
