"""Events on their way to sinks: what a dispatcher says and hears, and what an operator does with sinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from reproq.db.line import Call, Rows
from reproq.queue.text import array, number, seconds


@dataclass(frozen=True, slots=True)
class Sink:
    name: str
    url: str
    mode: str
    signed: bool
    allow_private: bool
    timeout_s: float
    batch_size: int
    resume_in_s: float
    waiting: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event as it was claimed for one sink; `data` is JSON text, None = it has none."""

    number: int
    claim_no: int
    attempt: int
    left_s: float
    event_id: str
    source: str
    event_type: str
    subject: str | None
    in_order_of: str | None
    created_at: str
    data: bytes | None


Answers = dict[tuple[int, int], str]
"""(number, claim_no) -> done, parked, already, lost."""


def dispatch_sinks(names: Sequence[str] = ()) -> Call:
    sql = (
        b"select sink_name, url, mode, signed, allow_private, timeout_s, batch_size, resume_in_s, waiting"
        b" from queues.dispatch_sinks($1)"
    )
    return Call(sql, (array(names or None),), lambda rows: [_sink(row) for row in rows])


def claim_deliveries(sink: str, lease_s: float, max_events: int, run_length: int, after: str | None) -> Call:
    """Answers deliveries in the order in which they are to be sent."""
    sql = (
        b"select event_number, claim_no, attempt, left_s, event_id, source, event_type, subject, in_order_of,"
        b" created_at, data from queues.claim_deliveries($1, $2, $3, $4, after => $5)"
    )
    params = (sink.encode(), seconds(lease_s), number(max_events), number(run_length), _text(after))
    return Call(sql, params, lambda rows: [_delivery(row) for row in rows])


def finish_deliveries(sink: str, outcomes: Sequence[dict[str, Any]]) -> Call:
    sql = b"select event_number, claim_no, answer from queues.finish_deliveries($1, $2)"
    return Call(sql, (sink.encode(), orjson.dumps(outcomes)), _answers)


def rest_dispatcher(dispatcher_id: str, expiry_s: float | None) -> Call:
    expiry = None if expiry_s is None else seconds(expiry_s)
    return Call(b"select queues.rest_dispatcher($1, $2)", (dispatcher_id.encode(), expiry), lambda rows: None)


def listen() -> Call:
    return Call(b"listen reproq_outbox", (), lambda rows: None)


_SINK_ARGUMENTS = (
    "url", "mode", "type_prefixes", "signed", "allow_private", "max_attempts", "max_age", "timeout", "batch_size",
    "backoff_base", "backoff_cap",
)  # fmt: skip


def put_sink(name: str, **given: Any) -> Call:
    """Answers added or changed. What isn't given, or is None, keeps its value or gets the default."""
    arguments = ", ".join(f"{argument} => ${place}" for place, argument in enumerate(_SINK_ARGUMENTS, 2))
    params = (name.encode(), *(_value(given.get(argument)) for argument in _SINK_ARGUMENTS))
    return Call(f"select queues.put_sink($1, {arguments})".encode(), params, _word)


def enable_sink(name: str, enabled: bool) -> Call:
    """Answers enabled, disabled or unknown."""
    return Call(b"select queues.enable_sink($1, $2)", (name.encode(), _flag(enabled)), _word)


def drop_sink(name: str) -> Call:
    """Answers dropped or unknown."""
    return Call(b"select queues.drop_sink($1)", (name.encode(),), _word)


def list_sinks() -> Call:
    return Call(b"select pg_catalog.to_jsonb(s) from queues.list_sinks() s", (), _documents)


def parked_deliveries(sink: str | None, max_rows: int) -> Call:
    params = (_text(sink), number(max_rows))
    return Call(b"select pg_catalog.to_jsonb(d) from queues.parked_deliveries($1, $2) d", params, _documents)


def replay_events(sink: str, since: str | None, until: str | None, event: str | None) -> Call:
    """Answers how many events wait for the sink that didn't."""
    params = (sink.encode(), _text(since), _text(until), _text(event))
    return Call(b"select queues.replay_events($1, $2, $3, $4)", params, lambda rows: int(rows[0][0] or 0))


def engine_events(queue_name: str, wanted: bool) -> Call:
    """Answers wanted or unwanted."""
    return Call(b"select queues.engine_events($1, $2)", (queue_name.encode(), _flag(wanted)), _word)


def _sink(row: list[bytes | None]) -> Sink:
    name, url, mode, signed, private, timeout, batch, resume, waiting = (value or b"" for value in row)
    return Sink(
        name.decode(), url.decode(), mode.decode(), signed == b"t", private == b"t", float(timeout), int(batch),
        float(resume), waiting == b"t",
    )  # fmt: skip


def _delivery(row: list[bytes | None]) -> Delivery:
    numbers, texts, data = row[:4], row[4:10], row[10]
    event_id, source, event_type, subject, in_order_of, created_at = (
        None if text is None else text.decode() for text in texts
    )
    return Delivery(
        int(numbers[0] or 0), int(numbers[1] or 0), int(numbers[2] or 0), float(numbers[3] or 0), event_id or "",
        source or "", event_type or "", subject, in_order_of, created_at or "", data,
    )  # fmt: skip


def _answers(rows: Rows) -> Answers:
    return {(int(row[0] or 0), int(row[1] or 0)): (row[2] or b"").decode() for row in rows}


def _documents(rows: Rows) -> list[dict[str, Any]]:
    return [orjson.loads(row[0] or b"{}") for row in rows]


def _value(value: Any) -> bytes | None:
    if value is None or isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return _flag(value)
    return array(value) if isinstance(value, (list, tuple)) else str(value).encode()


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _flag(value: bool) -> bytes:
    return b"t" if value else b"f"


def _word(rows: Rows) -> str:
    return (rows[0][0] or b"").decode()
