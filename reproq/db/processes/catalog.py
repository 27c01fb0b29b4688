"""Which processes a database has, by the names of their tables and functions."""

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from reproq.db.connect import Connection
from reproq.db.migration.files import SCHEMAS
from reproq.db.migration.roles import installed_owner, may_become
from reproq.db.processes.errors import ProcessError, UnknownProcess

_ROOTS = """
    select n.nspname::text, left(c.relname, -5)::text, pg_get_userbyid(n.nspowner)::text
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and c.relname like '%\\_task'
      and exists (select from pg_attribute a
                  where a.attrelid = c.oid and a.attname = c.relname || '_id' and not a.attisdropped)
      and exists (select from pg_proc p
                  where p.pronamespace = n.oid and p.proname = left(c.relname, -5) || '_supervisor'
                    and p.pronargs = 1 and p.proargtypes[0] = 'jsonb'::regtype)
    order by 1, 2
"""
# A fact's own suffix, whether it names the process, the attempt, or both, and whether it names a task of the queue.
_FACTS = """
    select substr(c.relname, length(%(root)s::text) + 2)::text, bool_or(a.attname = %(root)s::text || '_id'),
           bool_or(a.attname = 'attempt_id'), bool_or(a.attname = 'task_run_id')
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = %(schema)s::text::regnamespace and c.relkind = 'r'
      and starts_with(c.relname, %(root)s::text || '_')
    group by c.relname
    having bool_or(a.attname = 'created_at')
       and bool_or(a.attname in (%(root)s::text || '_id', 'attempt_id'))
    order by min(c.oid)
"""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


@dataclasses.dataclass(frozen=True)
class Fact:
    """One table of facts: its name is what happened."""

    name: str
    by_process: bool
    by_attempt: bool
    names_task: bool


@dataclasses.dataclass(frozen=True)
class Process:
    """One kind of process."""

    schema: str
    name: str
    schema_owner: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def root(self) -> str:
        return f"{self.name}_task"

    @property
    def id_column(self) -> str:
        return f"{self.root}_id"

    @property
    def supervisor(self) -> str:
        return f"{self.schema}.{self.name}_supervisor"

    def payload(self, number: int) -> dict[str, object]:
        """The supervisor's payload, as queues.supervise spells it."""
        return {"task_type": "db_function", "db_function": self.supervisor, self.id_column: number}

    def table(self, fact: str = "") -> sql.Identifier:
        return sql.Identifier(self.schema, f"{self.root}_{fact}" if fact else self.root)


def all_processes(conn: Connection) -> list[Process]:
    """Return every kind of process in this database; needs no right on any table."""
    return [Process(str(s), str(n), str(o)) for s, n, o in conn.execute(_ROOTS).fetchall()]


def find_process(conn: Connection, name: str) -> Process:
    """Return `schema.process`; `process` alone does where only one schema has it."""
    known = all_processes(conn)
    wanted = name.removesuffix("_supervisor").removesuffix("_task") if _NAME.fullmatch(name) else ""
    found = [process for process in known if wanted in (str(process), process.name)]
    if len(found) == 1:
        return found[0]
    if not known:
        raise UnknownProcess(
            f"no process {name!r:.80}: this database has none; Reproq's own come with `reproq migrate`"
        )
    raise UnknownProcess(f"no process {name!r:.80}; there are {', '.join(map(str, known))}")


def facts_of(conn: Connection, process: Process) -> list[Fact]:
    """Return the tables of facts of a process, in the order in which they were made."""
    asked = {"schema": sql.Identifier(process.schema).as_string(conn), "root": process.root}
    rows = conn.execute(_FACTS, asked).fetchall()
    return [Fact(str(name), bool(a), bool(b), bool(c)) for name, a, b, c in rows]


class Sight:
    """Looks into a process's schema and into Reproq's, each as its owner where the login may become it."""

    def __init__(self, conn: Connection, process: Process) -> None:
        self._conn = conn
        self._process = process
        self._queue_owner = installed_owner(conn)

    def at_schema(self, schema: str) -> None:
        ours = self._queue_owner if schema in SCHEMAS else None
        self._become(self._process.schema_owner if schema == self._process.schema else ours)

    def at_process(self) -> None:
        self._become(self._process.schema_owner)

    def at_queue(self) -> None:
        self._become(self._queue_owner)

    def _become(self, owner: str | None) -> None:
        self._conn.execute("set local role none")
        if owner and owner != self._conn.info.user and may_become(self._conn, owner):
            self._conn.execute(sql.SQL("set local role {}").format(sql.Identifier(owner)))


@contextmanager
def sight(conn: Connection, process: Process, *, read_only: bool = True) -> Iterator[Sight]:
    """One transaction; where it only reads, one moment of the database for as long as the block lasts."""
    try:
        with conn.transaction():
            if read_only:
                conn.execute("set transaction isolation level repeatable read read only")
            yield Sight(conn, process)
    except psycopg.errors.InsufficientPrivilege as exc:
        raise ProcessError(
            f"the login {conn.info.user} may not see {process} and its tasks"
            f" ({exc.diag.message_primary}): give --database-url of the owner or an administrator"
        ) from exc
