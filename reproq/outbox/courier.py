"""Threads that carry events to one sink. A thread takes a parcel, sends what is in it, in order, and tells what became
of each; it holds one connection and knows no database.

What can't be begun before the claim runs out, or after the dispatcher was asked to stop, goes back unsent. So does all
that is behind a failure: nothing overtakes an event of its own subject.
"""

from __future__ import annotations

import queue
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reproq.outbox import signing
from reproq.outbox.addresses import Gate
from reproq.outbox.message import message
from reproq.outbox.post import Place, Post, Unreachable
from reproq.queue.outbox import Delivery, Sink

_MARGIN_S = 0.5  # before the end of a lease
_TELL_EVERY_S = 0.05
_TOO_MUCH = (400, 413, 422)
Outcome = dict[str, Any]
Report = Callable[[Sink, list[tuple[Delivery, Outcome]]], None]


@dataclass(frozen=True, slots=True)
class Parcel:
    sink: Sink
    keys: tuple[bytes, ...]
    deliveries: Sequence[Delivery]
    until: float  # time.monotonic() of the lease's end


def runs(deliveries: Sequence[Delivery]) -> list[list[Delivery]]:
    """Those of one subject that follow each other stay together; one in no order is alone."""
    found: list[list[Delivery]] = []
    for delivery in deliveries:
        if found and delivery.in_order_of is not None and found[-1][-1].in_order_of == delivery.in_order_of:
            found[-1].append(delivery)
        else:
            found.append([delivery])
    return found


@dataclass
class Crew:
    """The threads of one sink; they start when there is work for one more."""

    size: int
    gate: Gate
    context: ssl.SSLContext
    report: Report
    _parcels: queue.SimpleQueue[Parcel | None] = field(default_factory=queue.SimpleQueue)
    _threads: int = 0
    _stopping: threading.Event = field(default_factory=threading.Event)

    def carry(self, parcel: Parcel) -> None:
        self._parcels.put(parcel)
        if self._threads < self.size:
            self._threads += 1
            threading.Thread(target=self._work, name=f"sink {parcel.sink.name}", daemon=True).start()

    def stop(self) -> None:
        """What is under way goes on; everything else comes back."""
        self._stopping.set()
        for _ in range(self._threads):
            self._parcels.put(None)

    def _work(self) -> None:
        courier = Courier(self.gate, self.context, self._stopping, self.report)
        while (parcel := self._parcels.get()) is not None:
            courier.carry(parcel)
        courier.close()


class Courier:
    def __init__(self, gate: Gate, context: ssl.SSLContext, stopping: threading.Event, report: Report) -> None:
        self._gate = gate
        self._context = context
        self._stopping = stopping
        self._report = report
        self._post: Post | None = None
        self._way: tuple[str, bool] | None = None

    def close(self) -> None:
        if self._post is not None:
            self._post.close()

    def carry(self, parcel: Parcel) -> None:
        sink, rest = parcel.sink, list(parcel.deliveries)
        size = len(rest) if sink.mode == "batched" else 1
        told: list[tuple[Delivery, Outcome]] = []
        told_at = time.monotonic()
        while rest and self._may_begin(parcel):
            bundle = rest[:size]
            outcome = self._send(parcel, bundle)
            if len(bundle) > 1 and outcome.get("status") in _TOO_MUCH:  # one event of it may be at fault, or its size
                size = len(bundle) // 2
                continue
            rest = rest[len(bundle) :]
            told += [(delivery, outcome) for delivery in bundle]
            if outcome["result"] != "delivered":
                break
            if rest and time.monotonic() - told_at > _TELL_EVERY_S:
                self._report(sink, told)
                told, told_at = [], time.monotonic()
        self._report(sink, told + [(delivery, {"result": "returned"}) for delivery in rest])

    def _may_begin(self, parcel: Parcel) -> bool:
        return not self._stopping.is_set() and time.monotonic() + parcel.sink.timeout_s + _MARGIN_S <= parcel.until

    def _send(self, parcel: Parcel, bundle: list[Delivery]) -> Outcome:
        sink = parcel.sink
        try:
            sent = message(sink.mode, bundle)
            signed = signing.headers(sent.message_id, int(time.time()), sent.body, parcel.keys)
            answer = self._way_to(sink).send(sent.body, {**sent.headers, **signed}, sink.timeout_s)
        except Unreachable as problem:
            return {"result": "failed", "error": str(problem)}
        except Exception as problem:  # noqa: BLE001 - one event that can't be sent may not stop the others
            return {"result": "failed", "error": f"it can't be sent: {type(problem).__name__}"}
        if 200 <= answer.status < 300:
            return {"result": "delivered", "status": answer.status}
        words = {"result": "failed", "status": answer.status, "error": f"answered {answer.status}"}
        return words | {"retry_after_s": answer.retry_after_s()}

    def _way_to(self, sink: Sink) -> Post:
        way = (sink.url, sink.allow_private)
        if self._post is None or self._way != way:
            self.close()
            self._post = Post(Place.of(sink.url), self._gate, self._context, allow_private=sink.allow_private)
            self._way = way
        return self._post
