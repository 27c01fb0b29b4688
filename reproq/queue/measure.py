"""queues.measure: the metrics that only the database knows."""

from __future__ import annotations

import orjson

from reproq.db.line import Call, Rows

Measure = tuple[str, dict[str, str], float]  # name, labels, value


def measure() -> Call:
    return Call(b"select name, labels, value from queues.measure()", (), _measures)


def _measures(rows: Rows) -> list[Measure]:
    return [((name or b"").decode(), orjson.loads(labels or b"{}"), float(value or 0)) for name, labels, value in rows]
