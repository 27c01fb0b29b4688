"""Which processes there are, and how each stands."""

from typing import Any

from psycopg import sql

from reproq.db.connect import Connection
from reproq.db.processes.catalog import Process, facts_of, sight
from reproq.db.processes.errors import ProcessError

# Rows go through JSON: the user's own tables may lack a column that ours have.
_ROWS = sql.SQL("""
    select * from (
        select r.{id}, {state}, (pg_catalog.to_jsonb(r) ->> 'created_at')::timestamptz, {attempts}, {reason}
        from {root} r {joins}) as found (id, state, created_at, attempts, reason)
    where %(state)s::text is null or state = %(state)s
    order by id desc limit %(limit)s
""")
# The words of the CHECK on the column `outcome`.
_OUTCOMES = """
    select distinct word[1] from pg_constraint c
    join pg_class t on t.oid = c.conrelid and t.relname = %(table)s
    join pg_namespace n on n.oid = t.relnamespace and n.nspname = %(schema)s
    join pg_attribute a on a.attrelid = c.conrelid and a.attname = 'outcome' and a.attnum = any (c.conkey)
    cross join lateral regexp_matches(pg_get_constraintdef(c.oid), '''([a-z_]+)''', 'g') word
    where c.contype = 'c'
"""
_NULL = sql.SQL("null::text")


def listed(conn: Connection, processes: list[Process], *, state: str | None, limit: int) -> list[dict[str, Any]]:
    """Return the newest first, over all these kinds of process.

    A state is `open`, the outcome, or `resolved` where a person has said what became of it.
    """
    if state is not None:
        _check_state(conn, processes, state)
    rows: list[dict[str, Any]] = []
    for process in processes:
        with sight(conn, process) as look:
            look.at_process()
            found: Any = conn.execute(_query(conn, process), {"state": state, "limit": limit}).fetchall()
        names = ("process", "id", "state", "created_at", "attempts", "reason")
        rows += [dict(zip(names, (str(process), *row), strict=True)) for row in found]
    rows.sort(key=lambda row: (row["created_at"] is not None, row["created_at"]), reverse=True)
    return rows[:limit]


def _check_state(conn: Connection, processes: list[Process], state: str) -> None:
    """Refuse a state that none of them can be in; one whose outcomes no CHECK lists may be in any."""
    known = {"open"}
    for process in processes:
        names = {fact.name for fact in facts_of(conn, process) if fact.by_process}
        outcomes = _outcomes(conn, process) if "ended" in names else set()
        if "ended" in names and not outcomes:
            return
        known |= outcomes | ({"resolved"} if "resolved" in names else set())
    if state not in known:
        raise ProcessError(f"no process can be in state {state!r:.60}: there are {', '.join(sorted(known))}")


def _outcomes(conn: Connection, process: Process) -> set[str]:
    asked = {"schema": process.schema, "table": f"{process.root}_ended"}
    return {str(word) for (word,) in conn.execute(_OUTCOMES, asked).fetchall()}


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
    told = [sql.SQL("pg_catalog.to_jsonb(ended) ->> {}").format(what), sql.Literal(otherwise)]
    if "resolved" in joined:
        known = sql.SQL("pg_catalog.to_jsonb(resolved) ->> 'resolution'") if what == "reason" else sql.SQL("'resolved'")
        told.insert(0, sql.SQL("case when pg_catalog.to_jsonb(resolved) is not null then {} end").format(known))
    return sql.SQL("coalesce({})").format(sql.SQL(", ").join(told))
