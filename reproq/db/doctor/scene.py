"""What every rule needs to know of a database before it looks: whose it is, and which schemas concern us."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from reproq.db.connect import Connection, as_sql
from reproq.db.migration import ledger
from reproq.db.migration.files import OWNER, SCHEMAS, Migrations, load
from reproq.db.migration.ledger import MigrationState
from reproq.db.migration.roles import as_owner_if_possible, installed_owner, may_become, pin
from reproq.models.errors import ReproqError

T = TypeVar("T")
_NEEDS_ALLOWED = ("%(theirs)s", "%(watched)s")
_ALLOWED = "select schema_name::text from internal.callable_schema order by 1"


class Unseen(ReproqError):
    """This login may not look; the text says at what."""


@dataclasses.dataclass(frozen=True)
class Scene:
    """`allowed` are the schemas whose functions payloads may name, without ours; None: this login can't see them."""

    conn: Connection
    files: Migrations
    owner: str | None
    ours: tuple[str, ...]
    allowed: tuple[str, ...] | None
    state: MigrationState
    named: tuple[str, ...] | None = None  # `allowed`, with ours among them
    dsn: str | None = None  # for rules that need a second connection

    def ask(self, statement: str, **more: object) -> list[tuple[Any, ...]]:
        """Run one query of ours; it may use these names as parameters. Names come out qualified."""
        with _pinned(self.conn):
            return [tuple(row) for row in self.conn.execute(as_sql(statement), self.parameters | more).fetchall()]

    def look(self, statement: str, **more: object) -> list[tuple[Any, ...]]:
        """Run one query over Reproq's own tables, which nobody may read but the owner and administrators."""
        for way in (self.conn.transaction, lambda: as_owner_if_possible(self.conn)):
            try:
                with way():
                    return self.ask(statement, **more)
            except psycopg.errors.InsufficientPrivilege:
                continue
            except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction):
                raise Unseen("a schema that isn't this code's: see schema.version first") from None
        raise Unseen("Reproq's tables: ask as an administrator or a member of the owner")

    def admit(self, statement: str) -> None:
        """Say so where a query was about allowed schemas too, and this login doesn't know which they are."""
        if self.allowed is None and any(name in statement for name in _NEEDS_ALLOWED):
            raise Unseen(
                "the allowed schemas (internal.callable_schema): ask as an administrator or a member of the owner"
            )

    @functools.cached_property
    def parameters(self) -> dict[str, Any]:
        return {
            "ours": list(self.ours),
            "theirs": list(self.allowed or ()),
            "watched": [*self.ours, *(self.allowed or ())],
            "owner": self.owner or self.files.owner,
            "roles": list(self.files.role_names),
            "service": [name for name in self.files.role_names if name != self.files.owner],
            "installed": self.installed,
            "worker": self.role("worker_service_user"),
            "author": self.role("reproq_process_author"),
            "reader": self.role("reproq_reader"),
            "database": self.conn.info.dbname,
        }

    def role(self, name: str) -> str:
        """The name that a role of ours has on this server."""
        return self.files.role_prefix + name

    @property
    def server(self) -> int:
        return self.conn.info.server_version

    @property
    def installed(self) -> bool:
        return self.owner is not None


def look_around(conn: Connection, dsn: str | None = None) -> Scene:
    """Answers for a login of any kind, and leaves no setting behind in a session that may be a pooler's."""
    owner = installed_owner(conn)
    prefix = owner.removesuffix(OWNER) if owner and owner.endswith(OWNER) else ""
    files = load(role_prefix=prefix)
    here = _column(conn, "select nspname::text from pg_namespace where nspname = any(%s)", [list(SCHEMAS)])
    allowed = _seen(conn, owner, lambda: _column(conn, _ALLOWED)) if owner else []
    state = _seen(conn, owner, lambda: _state(conn, files)) or _read(conn, files)
    return Scene(
        conn,
        files,
        owner,
        tuple(name for name in SCHEMAS if name in here),
        None if allowed is None else tuple(name for name in allowed if name not in SCHEMAS),
        state,
        None if allowed is None else tuple(allowed),
        dsn,
    )


def _column(conn: Connection, statement: str, values: list[Any] | None = None) -> list[str]:
    with _pinned(conn):
        return [str(row[0]) for row in conn.execute(as_sql(statement), values).fetchall()]


@contextmanager
def _pinned(conn: Connection) -> Iterator[None]:
    with conn.transaction():
        pin(conn)
        yield


def _read(conn: Connection, files: Migrations) -> MigrationState:
    with _pinned(conn):
        return ledger.read(conn, files)


def _state(conn: Connection, files: Migrations) -> MigrationState:
    found = _read(conn, files)
    if not found.readable:
        raise psycopg.errors.InsufficientPrivilege
    return found


def _seen(conn: Connection, owner: str | None, look: Callable[[], T]) -> T | None:
    """As ourselves, else as the owner, where we may become it for a moment."""
    try:
        with conn.transaction():
            return look()
    except psycopg.errors.InsufficientPrivilege:
        if owner is None or not may_become(conn, owner):
            return None
    with conn.transaction(force_rollback=True):
        conn.execute(sql.SQL("set local role {}").format(sql.Identifier(owner)))
        return look()
