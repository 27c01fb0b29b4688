"""Events as CloudEvents 1.0 over HTTP: structured, binary, batched."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from reproq.queue.outbox import Delivery

_PLAIN = "".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", "")
_JSON = "application/json"
_BATCHES = uuid.UUID("5f6d8f5e-8d0f-5d0c-9e0b-0d1c3f6a7b21")


@dataclass(frozen=True, slots=True)
class Message:
    message_id: str
    body: bytes
    headers: dict[str, str]


def message(mode: str, deliveries: Sequence[Delivery]) -> Message:
    """One request. But for a batch it holds one event, whose id is the message's: the same on every repeat."""
    if mode == "batched":
        body = orjson.dumps([_structured(each) for each in deliveries])
        same_for_same = str(uuid.uuid5(_BATCHES, " ".join(each.event_id for each in deliveries)))
        return Message(same_for_same, body, {"Content-Type": "application/cloudevents-batch+json; charset=utf-8"})
    (delivery,) = deliveries
    if mode == "binary":
        return Message(delivery.event_id, delivery.data or b"", _binary(delivery))
    body = orjson.dumps(_structured(delivery))
    return Message(delivery.event_id, body, {"Content-Type": "application/cloudevents+json; charset=utf-8"})


def _attributes(delivery: Delivery) -> dict[str, str]:
    """`sequence` is a documented extension: within a subject, later events have the greater text."""
    found = {
        "specversion": "1.0",
        "id": delivery.event_id,
        "source": delivery.source,
        "type": delivery.event_type,
        "time": delivery.created_at,
        "sequence": f"{delivery.number:020d}",
    }
    return found if delivery.subject is None else {**found, "subject": delivery.subject}


def _structured(delivery: Delivery) -> dict[str, Any]:
    attributes: dict[str, Any] = dict(_attributes(delivery))
    if delivery.data is not None:  # as the database wrote it: no digit of a long number is lost
        attributes |= {"datacontenttype": _JSON, "data": orjson.Fragment(delivery.data)}
    return attributes


def _binary(delivery: Delivery) -> dict[str, str]:
    found = {f"ce-{name}": quote(value, safe=_PLAIN) for name, value in _attributes(delivery).items()}
    return found if delivery.data is None else {**found, "Content-Type": _JSON}
