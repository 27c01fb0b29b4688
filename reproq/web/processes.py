"""A process as something to wait for: its status function says how it stands."""

from __future__ import annotations

import hashlib

import orjson

from reproq.db.processes.status import OUTCOMES
from reproq.queue.waiting import Sight


def sight_of(number: int, document: bytes | None) -> Sight:
    if document is None:
        return Sight(number, None)
    status = orjson.loads(document)
    is_over = isinstance(status, dict) and (status.get("ended_at") is not None or status.get("state") in OUTCOMES)
    return Sight(number, hashlib.sha256(document).hexdigest()[:16], is_over, document=document)
