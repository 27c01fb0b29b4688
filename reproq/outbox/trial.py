"""One event to one sink, now, by whoever asks: does the way work?"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

from reproq.config import DispatchSettings
from reproq.outbox.addresses import Gate
from reproq.outbox.courier import Courier, Outcome, Parcel
from reproq.outbox.post import tls_context
from reproq.outbox.secrets import Unusable, keys_of
from reproq.queue.outbox import Delivery, Sink


def try_sink(sink: Sink, settings: DispatchSettings, environ: Mapping[str, str]) -> Outcome:
    """The event is stored nowhere; its number is 0."""
    try:
        keys = keys_of(sink, environ)
    except Unusable as problem:
        return {"result": "failed", "error": str(problem)}
    told: list[Outcome] = []
    courier = Courier(
        Gate(settings.allow_private),
        tls_context(settings.ca_file),
        threading.Event(),
        lambda _sink, outcomes: told.extend(outcome for _delivery, outcome in outcomes),
    )
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    event = Delivery(0, 0, 1, 0, str(uuid.uuid4()), "/reproq", "reproq.test", None, None, now, b'{"test": true}')
    courier.carry(Parcel(sink, keys, [event], time.monotonic() + 2 * sink.timeout_s + 1))
    courier.close()
    return told[0]
