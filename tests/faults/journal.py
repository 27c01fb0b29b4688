"""The database's side of the evidence: its rows, and a journal that a trigger of the tests keeps of every change."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.faults.evidence import Row, Step

Query = Callable[..., list[tuple[Any, ...]]]

INSTALL = (Path(__file__).parent / "journal.sql").read_text()
_ROWS = """
    select id, payload_json ->> 'n', status::text, leased_until is not null, attempt_count, max_attempts, claim_no,
           result_json, failure_kind
    from queues.task_runs order by id"""
_NS = "(extract(epoch from {}) * 1000000000)::bigint"
_STEPS = f"""
    select task_id, {_NS.format("at")}, old_status, new_status, old_claim, new_claim, was_leased, is_leased,
           old_attempts, new_attempts, worker_id, writer, {_NS.format("lease_end")}
    from faults.journal order by seq"""


def rows(query: Query) -> dict[int, Row]:
    return {row[0]: Row(*row) for row in query(_ROWS)}


def steps(query: Query) -> list[Step]:
    """In the order in which they were written, their moments on the ledger's clock."""
    shift = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return [_step(row, shift) for row in query(_STEPS)]


def _step(row: Sequence[Any], shift: int) -> Step:
    lease_end = None if row[12] is None else row[12] - shift
    values: list[Any] = [row[0], row[1] - shift, *row[2:12], lease_end]
    return Step(*values)
