"""As whom the schema is made: the roles of the server, and the right to become their owner.

Roles belong to the whole server, so several databases may make them at the same moment: what a rival did first counts
as done, and what collides ("tuple concurrently updated") is tried again. It happens in transactions of its own, before
the schema's.
"""

import dataclasses
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from reproq.db.connect import Connection, as_sql
from reproq.db.errors import MigrationRefused, first_line
from reproq.db.migration.files import SCHEMAS, Migrations
from reproq.db.migration.script import SEARCH_PATH

ROLE_TRIES = 20
_RIVAL = {"42710", "23505", "40001", "40P01"}  # exists, exists, serialization, deadlock


@dataclasses.dataclass(frozen=True)
class Login:
    """What the connected login is and may do by itself."""

    name: str
    database: str
    superuser: bool
    makes_roles: bool
    creates_here: bool
    server: int


@dataclasses.dataclass(frozen=True)
class Ownership:
    """The role to become for the schema's transaction (None: stay the login), and whether grants can be given."""

    become: str | None
    roles_exist: bool


def who(conn: Connection) -> Login:
    """Ask who we are."""
    ((name, database, superuser, makes_roles, creates),) = _ask(
        conn,
        "select current_user::text, current_database()::text, rolsuper, rolcreaterole,"
        " has_database_privilege(current_user, current_database(), 'CREATE')"
        " from pg_catalog.pg_roles where rolname = current_user",
    )
    return Login(
        str(name), str(database), bool(superuser), bool(makes_roles or superuser), bool(creates),
        conn.info.server_version,
    )  # fmt: skip


def settle(conn: Connection, files: Migrations, say: Callable[[str], None]) -> Ownership:
    """Make the roles where needed, and say as whom the schema is to be made; or refuse with the next step."""
    login = who(conn)
    owner = installed_owner(conn)
    if owner not in (None, files.owner):
        return _as_before(conn, login, str(owner), files)
    if missing := missing_roles(conn, files):
        if not login.makes_roles:
            return _without_roles(login, owner, missing, files, say)
        _patiently(conn, as_sql(files.roles.text))
    _become_able(conn, login, files)
    _let_owner_create(conn, login, files)
    return Ownership(files.owner, roles_exist=True)


def lift_limits(conn: Connection) -> None:
    """Lift, for this transaction, every time limit that the login or the database may have."""
    limits = ["lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"]
    limits += ["transaction_timeout"] if conn.info.server_version >= 170000 else []
    for limit in limits:
        conn.execute(as_sql(f"set local {limit} = 0"))


def missing_roles(conn: Connection, files: Migrations) -> list[str]:
    """Return the names of our roles that the server lacks."""
    names = list(files.role_names)
    rows = _ask(conn, "select rolname::text from pg_catalog.pg_roles where rolname = any(%s)", names)
    found = {row[0] for row in rows}
    return [name for name in files.role_names if name not in found]


def installed_owner(conn: Connection) -> str | None:
    """Return who owns the schema that is installed."""
    rows = _ask(
        conn,
        "select pg_catalog.pg_get_userbyid(c.relowner)::text from pg_catalog.pg_class c"
        " join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'internal' and c.relname = 'schema_version'",
    )
    return str(rows[0][0]) if rows else None


def may_become(conn: Connection, role: str) -> bool:
    """Say whether SET ROLE would work (16+ separates that right from membership)."""
    right = "SET" if conn.info.server_version >= 160000 else "MEMBER"
    statement = "select pg_catalog.pg_has_role(current_user, oid, %s) from pg_catalog.pg_roles where rolname = %s"
    return _ask(conn, statement, right, role) == [(True,)]


@contextmanager
def as_owner_if_possible(conn: Connection) -> Iterator[None]:
    """Be the installation's owner for one transaction, where the login may: a member needn't inherit its rights."""
    owner = installed_owner(conn)
    becomes = owner is not None and may_become(conn, owner)
    with conn.transaction():
        if owner is not None and becomes:
            conn.execute(sql.SQL("set local role {}").format(sql.Identifier(owner)))
        yield


def missing_schemas(conn: Connection) -> list[str]:
    """Return the names of our schemas that the database lacks."""
    rows = _ask(conn, "select nspname::text from pg_catalog.pg_namespace where nspname = any(%s)", list(SCHEMAS))
    found = {row[0] for row in rows}
    return [name for name in SCHEMAS if name not in found]


def _as_before(conn: Connection, login: Login, owner: str, files: Migrations) -> Ownership:
    """Go on as the role that owns the installation, which was made where no role could be."""
    if not may_become(conn, owner):
        raise MigrationRefused(
            f"Reproq's schema in database {login.database} belongs to {owner}, and login {login.name} may not act as"
            f" it: run `reproq migrate` as {owner}"
        )
    return Ownership(None if owner == login.name else owner, not missing_roles(conn, files))


def _without_roles(
    login: Login, owner: str | None, missing: list[str], files: Migrations, say: Callable[[str], None]
) -> Ownership:
    if owner is None and files.owner in missing and login.creates_here:
        say(
            f"warning: login {login.name} may not create roles, so it owns all of Reproq's schema itself and every"
            f" login that uses it must be {login.name}; an administrator can run `reproq migrate --roles-sql` first"
        )
        return Ownership(None, roles_exist=False)
    raise MigrationRefused(
        f"login {login.name} may not create the roles that are missing on this server ({', '.join(missing)}):"
        f" run `reproq migrate` as a login with CREATEROLE that owns database {login.database}, or have an"
        f" administrator run the output of `reproq migrate --roles-sql`"
    )


def _become_able(conn: Connection, login: Login, files: Migrations) -> None:
    if may_become(conn, files.owner):
        return
    grant = "grant {} to {} with set true" if login.server >= 160000 else "grant {} to {}"
    statement = sql.SQL(grant).format(sql.Identifier(files.owner), sql.Identifier(login.name))
    try:
        if login.makes_roles:
            _patiently(conn, statement)
    except psycopg.errors.InsufficientPrivilege:
        pass  # 16+: the role was made by another login, which alone may hand it on
    if not may_become(conn, files.owner):
        raise MigrationRefused(
            f"login {login.name} may not act as {files.owner}, which owns Reproq's schema: run `reproq migrate` as a"
            f" superuser or a member of {files.owner}, name one in REPROQ_MIGRATE_URL, or have an administrator run"
            f" `GRANT {files.owner} TO {login.name}`"
        )


def _let_owner_create(conn: Connection, login: Login, files: Migrations) -> None:
    """Give the owner the right to make our schemas; needed once per database."""
    if not missing_schemas(conn) or _owner_creates(conn, files):
        return
    statement = sql.SQL("grant create on database {} to {}").format(
        sql.Identifier(login.database), sql.Identifier(files.owner)
    )
    try:
        _patiently(conn, statement)
    except psycopg.errors.InsufficientPrivilege:
        pass
    if not _owner_creates(conn, files):  # without the right to grant, PostgreSQL only warns
        raise MigrationRefused(
            f"{files.owner} may not create schemas in database {login.database}, and login {login.name} may not allow"
            f" it: run `reproq migrate` as the database's owner, or have it run"
            f" `GRANT CREATE ON DATABASE {login.database} TO {files.owner}`"
        )


def _owner_creates(conn: Connection, files: Migrations) -> bool:
    statement = "select pg_catalog.has_database_privilege(%s::name, current_database(), 'CREATE')"
    return _ask(conn, statement, files.owner) == [(True,)]


def pin(conn: Connection) -> None:
    """For this transaction names mean what the server says: an administrator asks here, and others may create in
    `public` or in a schema that the database's search_path names."""
    conn.execute(as_sql(SEARCH_PATH))


def _ask(conn: Connection, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Rolled back, so that a transaction around it keeps its own search_path."""
    with conn.transaction(force_rollback=True):
        pin(conn)
        return [tuple(row) for row in conn.execute(as_sql(statement), values or None).fetchall()]


def _patiently(conn: Connection, statement: sql.Composable | str) -> None:
    """Run a statement about roles in its own transaction, again and again while rivals do the same."""
    for left in reversed(range(ROLE_TRIES)):
        try:
            with conn.transaction():
                lift_limits(conn)
                pin(conn)
                conn.execute(statement)  # type: ignore[arg-type]
            return
        except psycopg.Error as exc:
            if not _is_rivalry(exc):
                raise
            if not left:
                raise MigrationRefused(f"other sessions kept changing roles: {first_line(exc)}; try again") from exc
        time.sleep(random.uniform(0.01, 0.2))


def _is_rivalry(exc: psycopg.Error) -> bool:
    return exc.sqlstate in _RIVAL or (exc.sqlstate == "XX000" and "concurrently" in str(exc))
