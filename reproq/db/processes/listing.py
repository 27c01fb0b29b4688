"""Which processes there are, and how each stands."""

from typing import Any

from psycopg import sql

from reproq.db.connect import Connection
from reproq.db.processes.catalog import Process, facts_of, sight

# Rows go through JSON: the user's own tables may lack a column that ours have.
_ROWS = sql.SQL("""
    select * from (
        select r.{id}, {state}, (to_jsonb(r) ->> 'created_at')::timestamptz, {attempts}, {reason}
        from {root} r {joins}) as found (id, state, created_at, attempts, reason)
    where %(state)s::text is null or state = %(state)s
    order by id desc limit %(limit)s
""")
_NULL = sql.SQL("null::text")


def listed(conn: Connection, processes: list[Process], *, state: str | None, limit: int) -> list[dict[str, Any]]:
    """Return the newest first, over all these kinds of process.

    A state is `open`, the outcome, or `resolved` where a person has said what became of it.
    """
    rows: list[dict[str, Any]] = []
    for process in processes:
        with sight(conn, process) as look:
            look.at_process()
            found: Any = conn.execute(_query(conn, process), {"state": state, "limit": limit}).fetchall()
        names = ("process", "id", "state", "created_at", "attempts", "reason")
        rows += [dict(zip(names, (str(process), *row), strict=True)) for row in found]
    rows.sort(key=lambda row: (row["created_at"] is not None, row["created_at"]), reverse=True)
    return rows[:limit]


def _query(conn: Connection, process: Process) -> sql.Composed:
    id_ = sql.Identifier(process.id_column)
    facts = {fact.name for fact in facts_of(conn, process) if fact.by_process}
    joined: list[str] = [name for name in ("ended", "resolved") if name in facts]
    attempts = sql.SQL("(select count(*) from {} a where a.{} = r.{})").format(process.table("scheduled"), id_, id_)
    return _ROWS.format(
        id=id_,
        root=process.table(),
        state=_coalesced(joined, "outcome", otherwise="open"),
        reason=_coalesced(joined, "reason"),
        attempts=attempts if "scheduled" in facts else sql.SQL("null::bigint"),
        joins=sql.SQL(" ").join(
            sql.SQL("left join {} {} on {}.{} = r.{}").format(
                process.table(name), sql.Identifier(name), sql.Identifier(name), id_, id_
            )
            for name in joined
        ),
    )


def _coalesced(joined: list[str], what: str, otherwise: str | None = None) -> sql.Composable:
    """What a process's end says; what a person found out later says more."""
    if "ended" not in joined:
        return _NULL
    told = [sql.SQL("to_jsonb(ended) ->> {}").format(what), sql.Literal(otherwise)]
    if "resolved" in joined:
        known = sql.SQL("to_jsonb(resolved) ->> 'resolution'") if what == "reason" else sql.SQL("'resolved'")
        told.insert(0, sql.SQL("case when to_jsonb(resolved) is not null then {} end").format(known))
    return sql.SQL("coalesce({})").format(sql.SQL(", ").join(told))
