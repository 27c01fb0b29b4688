"""One process from its facts, and from the queue what became of the tasks that its attempts were."""

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection
from reproq.db.processes.catalog import Fact, Process, Sight, facts_of, sight
from reproq.db.processes.errors import NotThere

_TASKS = """
    select t.id, t.task_type::text, t.queue_name::text, t.status::text,
           regexp_replace(t.worker_id, '/[^/]*$', '') as worker, t.attempt_count, t.max_attempts,
           t.failure_kind, t.last_error, t.run_after, t.started_at, t.completed_at,
           t.leased_until is not null as leased, e.detail ->> 'output' as output, c.begun_at as provider_called_at,
           c.answer as provider_answer
    from queues.task_runs t
    left join lateral (select detail from queues.task_events where task_id = t.id and detail ? 'output'
                       order by id desc limit 1) e on true
    left join lateral (select begun_at, answer from queues.channel_call where task_id = t.id
                       order by claim_no desc limit 1) c on true
    where t.id = any(%s) order by t.id
"""
_ERRORS = """
    select task_id, source, function_name, message, created_at from queues.error
    where created_at >= %s - interval '1 minute' and task_id = any(%s) order by id
"""
_OPEN = "select spec_hash, opened_at from internal.open_process where payload @> %s::jsonb"
# The one that waits and, at times beside it, the one that runs: both by an index, without a look at those of the past.
_SUPERVISORS = """
    select id, status::text, run_after, attempt_count, last_error, leased_until is not null as leased
    from queues.task_runs
    where spec_hash = %(hash)s and unique_among = 'waiting' and status in ('PENDING', 'RETRYING') and deleted_at is null
    union all
    select id, status::text, run_after, attempt_count, last_error, true
    from queues.task_runs where leased_until is not null and spec_hash = %(hash)s
    order by id
"""
_ROOT = """
    select clock_timestamp(), (pg_catalog.to_jsonb(r) ->> 'created_at')::timestamptz, pg_catalog.to_jsonb(r)
    from {} r where r.{} = %s
"""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_KEYS = ("attempt_id", "task_run_id")


@dataclasses.dataclass(frozen=True)
class Happening:
    """One fact: when, what, in which attempt, and what else its row says."""

    at: datetime
    fact: str
    attempt: int | None
    detail: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Timeline:
    """Everything that is known about one process. `now` is the database's clock."""

    process: str
    id_column: str
    id: int
    now: datetime
    root: dict[str, Any]
    facts: list[Happening]
    tasks: list[dict[str, Any]]  # of its attempts; each with the attempt's number
    errors: list[dict[str, Any]]
    supervisors: list[dict[str, Any]]
    is_registered: bool  # resume_supervisors would bring a lost supervisor back

    @property
    def ended(self) -> dict[str, Any] | None:
        return next((fact.detail for fact in self.facts if fact.fact == "ended"), None)


def timeline_of(conn: Connection, process: Process, number: int) -> Timeline:
    """Read everything about one process at one moment."""
    facts = facts_of(conn, process)
    with sight(conn, process) as look:
        look.at_process()
        now, made, root = _root(conn, process, number)
        rows = [row for fact in facts for row in _rows(conn, process, fact, facts, number)]
        numbers = _attempt_numbers(rows)
        tasks_of = {int(row["task_run_id"]): row.get("attempt_id") or 0 for _, _, row in rows if row.get("task_run_id")}
        run_ids = {task_id: numbers.get(attempt) for task_id, attempt in tasks_of.items()}
        since = min((at for at in (made, *(at for _, at, _ in rows)) if at), default=_LONG_AGO)
        tasks, errors, supervisors, registered = _queue(conn, look, process, number, run_ids, since)
    happened = sorted((_happening(process, *row, numbers) for row in rows), key=lambda fact: fact.at)
    return Timeline(
        str(process), process.id_column, number, now, root, happened, tasks, errors, supervisors, registered
    )


def _root(conn: Connection, process: Process, number: int) -> tuple[datetime, datetime | None, dict[str, Any]]:
    query = sql.SQL(_ROOT).format(process.table(), sql.Identifier(process.id_column))
    row: Any = conn.execute(query, [number]).fetchone()
    if row is None:
        raise NotThere(f"no {process} {number}; `reproq process list {process}` shows which there are")
    return row[0], row[1], row[2]


Row = tuple[str, datetime, dict[str, Any]]


def _rows(conn: Connection, process: Process, fact: Fact, facts: list[Fact], number: int) -> Iterable[Row]:
    """A table that knows its attempts only is joined by the one that knows both."""
    mine = sql.SQL("f.{} = %(id)s").format(sql.Identifier(process.id_column))
    if not fact.by_process:
        bridge = next((other for other in facts if other.by_process and other.by_attempt), None)
        if bridge is None:
            return []
        mine = sql.SQL("f.attempt_id in (select f.attempt_id from {} f where {})").format(
            process.table(bridge.name), mine
        )
    query = sql.SQL("select f.created_at, pg_catalog.to_jsonb(f) from {} f where {} order by f.created_at").format(
        process.table(fact.name), mine
    )
    found: Any = conn.execute(query, {"id": number}).fetchall()
    return [(fact.name, at, row) for at, row in found]


def _attempt_numbers(rows: list[Row]) -> dict[int, int]:
    """attempt_id → which attempt it was: as its row says, else by the order of the ids."""
    ids = sorted({row["attempt_id"] for _, _, row in rows if row.get("attempt_id")})
    said = {row["attempt_id"]: row["attempt_no"] for _, _, row in rows if row.get("attempt_no")}
    return {attempt: said.get(attempt, place) for place, attempt in enumerate(ids, 1)}


def _happening(process: Process, fact: str, at: datetime, row: dict[str, Any], numbers: dict[int, int]) -> Happening:
    shown = {
        name: value
        for name, value in row.items()
        if value is not None and name not in (*_KEYS, "attempt_no", "created_at", process.id_column)
    }
    return Happening(at, fact, numbers.get(row.get("attempt_id") or 0), shown)


def _queue(
    conn: Connection, look: Sight, process: Process, number: int, run_ids: dict[int, int | None], since: datetime
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]], bool]:
    look.at_queue()
    with conn.cursor(row_factory=dict_row) as cursor:
        tasks = cursor.execute(_TASKS, [list(run_ids)]).fetchall()
        opened = cursor.execute(_OPEN, [Jsonb(process.payload(number))]).fetchone()
        waiting = cursor.execute(_SUPERVISORS, {"hash": opened["spec_hash"]}).fetchall() if opened else []
        asked = [*run_ids, *(row["id"] for row in waiting)]
        errors = cursor.execute(_ERRORS, [since, asked]).fetchall()
    return [{"attempt": run_ids[task["id"]], **task} for task in tasks], errors, waiting, opened is not None
