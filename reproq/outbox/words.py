"""What the log says of a delivery. No data, no address: names, numbers, and what the sink answered."""

from __future__ import annotations

import logging
from typing import Any

from reproq.log import Event, say
from reproq.queue.outbox import Delivery

_GONE = 410


def say_outcome(sink: str, delivery: Delivery, outcome: dict[str, Any], answer: str) -> None:
    fields: dict[str, Any] = {"sink": sink, "event_id": delivery.event_id, "event_type": delivery.event_type}
    fields |= {"attempt": delivery.attempt, "status": outcome.get("status")}
    if answer == "lost":
        words = f"{sink}: the claim ran out before the outcome was told, so the event is sent again"
        say(Event.DELIVERY_LOST, words, logging.WARNING, **fields)
    elif outcome["result"] != "failed" or answer == "already":
        return
    elif answer == "parked":
        words = f"{sink}: given up after {delivery.attempt} attempts: {outcome['error']}"
        say(Event.DELIVERY_PARKED, words, logging.ERROR, **fields)
    else:
        say(Event.DELIVERY_FAILED, f"{sink}: {outcome['error']}; tried again later", logging.WARNING, **fields)
    if outcome.get("status") == _GONE:
        words = f"{sink} answered 410 Gone and was disabled; what waits for it is kept for a while"
        say(Event.SINK_GONE, words, logging.ERROR, sink=sink)
