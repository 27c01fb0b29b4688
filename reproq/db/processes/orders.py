"""What a person may order: try again, or say what became of a process that ended as unknown.

Both are functions of the process: `<schema>.retry_<process>(id)`, `<schema>.resolve_<process>(id, resolution)`; those
of Reproq's own leave the `send_` away.
"""

from psycopg import sql

from reproq.db.connect import Connection
from reproq.db.processes.catalog import Process, sight
from reproq.db.processes.errors import NotThere, ProcessError

_CALLABLE = """
    select p.proname::text from pg_proc p
    where p.pronamespace = %s::text::regnamespace and p.proname = any(%s) and p.prokind = 'f'
      and p.proargtypes[0] = 'bigint'::regtype and %s::int between p.pronargs - p.pronargdefaults and p.pronargs
"""


def retry(conn: Connection, process: Process, number: int) -> str:
    """Start it again by the process's own function; returns what that answers, as a rule the new process's id."""
    missing = "a process whose effects repeat says itself how it is tried again: its function is to start a new process"
    return _order(conn, process, "retry", [number], missing)


def resolve(conn: Connection, process: Process, number: int, resolution: str) -> None:
    """Put on record what a person found out about a process that ended as unknown."""
    answer = _order(conn, process, "resolve", [number, resolution], "it records what a person found out, as a fact")
    if answer == "resolved":
        return
    if answer == "resolved_before":
        raise NotThere(f"{process} {number} was resolved before; that stands")
    stands = "has not ended, or doesn't exist" if answer == "not_ended" else answer.replace("_", " ")
    raise NotThere(f"{process} {number} {stands}: only one that ended as unknown can be resolved")


def _order(conn: Connection, process: Process, verb: str, arguments: list[object], missing: str) -> str:
    names = [f"{verb}_{process.name}", f"{verb}_{process.name.removeprefix('send_')}"]
    schema = sql.Identifier(process.schema)
    with sight(conn, process, read_only=False) as look:
        found = conn.execute(_CALLABLE, [schema.as_string(conn), names, len(arguments)]).fetchone()
        if found is None:
            raise ProcessError(f"{process} has no function {process.schema}.{names[0]}(bigint): {missing}")
        look.at_process()
        call = sql.SQL("select {}({})").format(
            sql.Identifier(process.schema, str(found[0])), sql.SQL(", ").join([sql.Placeholder()] * len(arguments))
        )
        row = conn.execute(call, arguments).fetchone()
    return str(row[0] if row else None)
