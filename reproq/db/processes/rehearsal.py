"""What a supervisor would do now: it is run for real, looked at, and rolled back.

Which rows it wrote, nobody has to be told: in a REPEATABLE READ transaction every row that is visible and whose xmin
isn't older than the snapshot is our own, those of subtransactions (EXCEPTION blocks) included. The server counts the
writes of a transaction by table, so only tables that were written are searched. What was updated or deleted is seen by
a second session that shares the snapshot: there the old row is still visible, with our transaction in its xmax; a row
that was only locked looks the same, but is also still there for us.
"""

import dataclasses
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection, connect
from reproq.db.errors import first_line
from reproq.db.processes.catalog import Process, Sight
from reproq.db.processes.errors import NotThere, ProcessError

NAME = "reproq process"
TRIES = 5
# A row's transaction number is compared within this window: numbers wrap around, and old rows keep theirs.
WINDOW = 1 << 24
_LIMITS = "set local lock_timeout = '5s'; set local statement_timeout = '60s'"
# The worker's waking marks are no part of the story.
_WRITTEN = """
    select relid::regclass::text, schemaname::text, relname::text, n_tup_upd + n_tup_del > 0
    from pg_stat_xact_user_tables
    where n_tup_ins + n_tup_upd + n_tup_del > 0 and (schemaname, relname) <> ('queues', 'sleeper') order by relid
"""
_OURS = "(({}::text::bigint - %(base)s) & 4294967295) < %(window)s"
_KEY = """
    select a.attname::text from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
    where i.indisprimary and i.indrelid = %s::text::regclass
"""
# As when a worker runs it: its own row is claimed, and waits no more. Else it would find itself waiting already.
_CLAIM = """
    update queues.task_runs t
    set status = 'RUNNING', worker_id = %(worker)s, leased_until = clock_timestamp() + interval '1 minute'
    from internal.open_process p
    where p.payload @> %(payload)s::jsonb and t.spec_hash = p.spec_hash and t.unique_among = 'waiting'
      and t.status in ('PENDING', 'RETRYING') and t.deleted_at is null
"""
_ENVELOPE = """
    select o ->> 'success' = 'true' or (o ->> 'keep')::boolean from internal.outcome_of(%s::jsonb) o
"""


@dataclasses.dataclass(frozen=True)
class Write:
    """One row that the supervisor would insert, update or delete; `before` is an updated row's old self."""

    what: str
    table: str
    row: dict[str, Any]
    before: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """The answer and the writes; `would_stay` = a worker would commit them."""

    supervisor: str
    id: int
    answer: Any
    error: str | None
    would_stay: bool
    writes: list[Write]


class _RolledBack(Exception):
    """Ends the transaction."""


def rehearse(conn: Connection, dsn: str, process: Process, number: int) -> Rehearsal:
    """Run a process's supervisor and roll it back. The real one may be at it in this moment: then once more."""
    for left in reversed(range(TRIES)):
        try:
            return _rehearse(conn, dsn, process, number)
        except (psycopg.errors.SerializationFailure, psycopg.errors.LockNotAvailable) as exc:
            if not left:
                raise ProcessError(f"{process.supervisor} is busy with {number}: {first_line(exc)}; try again") from exc
        except psycopg.errors.InsufficientPrivilege as exc:
            raise ProcessError(
                f"the login {conn.info.user} may not rehearse {process} ({exc.diag.message_primary}): give"
                " --database-url of the owner or an administrator"
            ) from exc
    raise AssertionError("unreachable")


def _rehearse(conn: Connection, dsn: str, process: Process, number: int) -> Rehearsal:
    found: list[Rehearsal] = []
    try:
        with conn.transaction():
            conn.execute("set transaction isolation level repeatable read")
            conn.execute(_LIMITS)
            found.append(_play(conn, dsn, process, number))
            raise _RolledBack
    except _RolledBack:
        return found[0]


def _play(conn: Connection, dsn: str, process: Process, number: int) -> Rehearsal:
    look = Sight(conn, process)
    look.at_process()
    known = sql.SQL("select 1 from {} where {} = %s").format(process.table(), sql.Identifier(process.id_column))
    if conn.execute(known, [number]).fetchone() is None:
        raise NotThere(f"no {process} {number}; `reproq process list {process}` shows which there are")
    base, snapshot = _ask(conn, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_export_snapshot()")
    look.at_queue()
    conn.execute(_CLAIM, {"worker": NAME, "payload": Jsonb(process.payload(number))})
    look.at_process()
    answer, error = _run(conn, process, number)
    writes = _writes(conn, dsn, process, int(base), str(snapshot)) if error is None else []
    look.at_queue()
    stays = error is None and bool(_ask(conn, _ENVELOPE, [Jsonb(answer)])[0])
    return Rehearsal(process.supervisor, number, answer, error, stays, writes)


def _run(conn: Connection, process: Process, number: int) -> tuple[Any, str | None]:
    """The answer, or the exception that the supervisor raised."""
    call = sql.SQL("select {}(%s)").format(sql.Identifier(process.schema, f"{process.name}_supervisor"))
    try:
        with conn.transaction():
            return _ask(conn, call, [Jsonb(process.payload(number))])[0], None
    except (psycopg.errors.SerializationFailure, psycopg.errors.LockNotAvailable, psycopg.OperationalError):
        raise
    except psycopg.errors.InsufficientPrivilege:
        raise
    except psycopg.Error as exc:
        return None, first_line(exc)


def _ask(conn: Connection, query: Any, parameters: Any = None) -> Any:
    return conn.execute(query, parameters).fetchone()


def _writes(conn: Connection, dsn: str, process: Process, base: int, snapshot: str) -> list[Write]:
    tables: Any = conn.execute(_WRITTEN).fetchall()
    found: list[Write] = []
    with connect(dsn, name=NAME) as before, before.transaction():
        before.execute("set transaction isolation level repeatable read read only")
        before.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot)))
        eyes = Sight(conn, process), Sight(before, process)
        for name, schema, relation, changed in tables:
            for eye in eyes:
                eye.at_schema(schema)
            table = sql.Identifier(schema, relation)
            ours = [row for _, row in _with_our_mark(conn, table, "xmin", base)]
            old = _gone(conn, table, _with_our_mark(before, table, "xmax", base)) if changed else []
            key = [str(row[0]) for row in conn.execute(_KEY, [name]).fetchall()]
            found += _paired(name, ours, old, key)
    return found


def _with_our_mark(conn: Connection, table: sql.Identifier, mark: str, base: int) -> list[tuple[str, dict[str, Any]]]:
    query = sql.SQL(
        "select ctid::text, pg_catalog.to_jsonb(t) from {} t where " + _OURS.format(mark) + " order by ctid"
    )
    found: Any = conn.execute(query.format(table), {"base": base, "window": WINDOW}).fetchall()
    return list(found)


def _gone(conn: Connection, table: sql.Identifier, marked: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Of the rows that bear our mark, those that aren't there for us any more."""
    query = sql.SQL("select ctid::text from {} where ctid = any(%s::text[]::tid[])").format(table)
    here = {row[0] for row in conn.execute(query, [[place for place, _ in marked]]).fetchall()}
    return [row for place, row in marked if place not in here]


def _paired(table: str, new: list[dict[str, Any]], old: list[dict[str, Any]], key: list[str]) -> list[Write]:
    """An old and a new row with the same primary key are one update."""

    def of(row: dict[str, Any]) -> object:
        return tuple(row[name] for name in key) if key else id(row)

    former = {of(row): row for row in old}
    both = [(row, former.pop(of(row), None)) for row in new]
    writes = [
        Write("update" if before else "insert", table, row, before)
        for row, before in both
        if row.get("worker_id") != NAME  # the claim of ours
    ]
    return writes + [Write("delete", table, row) for row in former.values()]
