"""Bringing a database's schema to this code's version.

One run is one transaction under one transaction-scoped advisory lock (session locks don't survive a pooler): of ten
workers that start at once one migrates, and the others find the work done. Before it, in transactions of their own,
come the roles (migration/roles.py). Every DDL lock is waited for briefly and then given up with the whole run, so that
a long transaction somewhere never queues the application behind us; the run is repeated for a minute.
"""

import dataclasses
import random
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

from reproq.db.connect import Connection, as_sql, connect
from reproq.db.errors import MigrationRefused
from reproq.db.migration import hardening, ledger, roles, script
from reproq.db.migration.files import GRANTS, Migrations, SqlFile, check_prefix, functions_in, load
from reproq.db.migration.ledger import MigrationState
from reproq.db.migration.roles import Ownership

NAME = "reproq migrate"
DDL_LOCK_S = 3
PATIENCE_S = 60
Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Report:
    """What a run did: the version before, the version now, the files applied."""

    before: int | None
    after: int
    applied: tuple[str, ...] = ()


def state(conn: Connection, *, folder: Path | None = None) -> MigrationState:
    """Compare the database's schema with this code's."""
    files = load(folder)
    with roles.as_owner_if_possible(conn):
        roles.pin(conn)
        return ledger.read(conn, files)


def migrate(
    dsn: str, *, role_prefix: str = "", say: Say = print, folder: Path | None = None, repair: bool = False
) -> Report:
    """Bring the schema up to date, or refuse with the next step; a newer schema that serves this code is left alone.

    `repair` applies every function and right again, whatever the ledger says.
    """
    with connect(dsn, name=NAME) as conn:
        conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # whatever the login's or database's default
        conn.read_only = False
        _refuse_encoding(conn.info.parameter_status("server_encoding"))
        files = load(folder, _prefix_of(conn, role_prefix, folder))
        found = state(conn, folder=folder)
        if _is_served(found) and (found.newer or not (repair or _grants_wait(conn, files))):
            return Report(found.installed, found.installed or 0)
        ownership = roles.settle(conn, files, say)
        return _patiently(conn, files, ownership, say, repair)


def ensure(
    dsn: str,
    *,
    migrate_dsn: str | None = None,
    no_migrate: bool = False,
    role_prefix: str = "",
    say: Say = print,
    folder: Path | None = None,
) -> None:
    """Do what a worker does at its start: go on when the schema serves this code, else migrate, else refuse."""
    found = _look(dsn, folder)
    if _is_served(found):
        return
    if no_migrate:
        raise MigrationRefused(f"{_describe(found)}, and --no-migrate forbids changing it: run `reproq migrate` first")
    try:
        migrate(migrate_dsn or dsn, role_prefix=role_prefix, say=say, folder=folder)
    except MigrationRefused as exc:
        raise MigrationRefused(f"{_describe(found)}; {exc}") from exc
    if migrate_dsn and not _is_served(after := _look(dsn, folder)):
        raise MigrationRefused(
            f"REPROQ_MIGRATE_URL was migrated, but in the worker's own database {_describe(after)}:"
            " do the two addresses name the same database?"
        )


def sql(role_prefix: str = "", *, folder: Path | None = None) -> str:
    """Return everything that a migration does, for `psql -f`."""
    return script.everything(load(folder, role_prefix))


def roles_sql(role_prefix: str = "", *, folder: Path | None = None) -> str:
    """Return what an administrator runs, so that a lesser login can migrate."""
    return script.roles(load(folder, role_prefix))


def harden(dsn: str, *, say: Say = print) -> list[str]:
    """Take from everybody what a database gives everybody, TEMP and CREATE on public, and say first who loses it."""
    with connect(dsn, name=NAME) as conn, conn.transaction():
        roles.pin(conn)
        return hardening.harden(conn, say)


def _refuse_encoding(encoding: str | None) -> None:
    if encoding not in (None, "UTF8"):
        raise MigrationRefused(
            f"the encoding of this database is {encoding}, which can't hold every payload: Reproq needs UTF8"
            " (`create database … template template0 encoding 'UTF8'`)"
        )


def _look(dsn: str, folder: Path | None) -> MigrationState:
    with connect(dsn, name=NAME) as conn:
        return state(conn, folder=folder)


def _is_served(found: MigrationState) -> bool:
    """Say whether this code runs on the schema as it is; refuse at once when it never will."""
    if found.newer and not found.runnable:
        raise MigrationRefused(
            f"the database's schema is version {found.installed} and serves code of version {found.compatible_from}"
            f" and up, but this code is of version {found.code}: install the newer reproq here"
        )
    return found.runnable


def _describe(found: MigrationState) -> str:
    if not found.readable:
        return (
            "this login may not see the version of Reproq's schema (a worker's login needs"
            " `GRANT worker_service_user TO …`, a dispatcher's `GRANT reproq_dispatcher TO …`)"
        )
    if found.installed is None:
        return "Reproq's schema isn't installed"
    if found.installed == found.code:
        return f"the functions of the schema differ from this code's (both are version {found.code})"
    return f"the schema is version {found.installed}, this code needs {found.code}"


def _prefix_of(conn: Connection, wanted: str, folder: Path | None) -> str:
    """Return the prefix that the installation has, or the one wanted for a new one."""
    check_prefix(wanted)
    found = state(conn, folder=folder)
    if found.installed is None:
        return wanted
    if wanted not in ("", found.role_prefix):
        raise MigrationRefused(
            f"this database was installed with role prefix {found.role_prefix!r}, not {wanted!r}:"
            " leave --role-prefix away, or use another database"
        )
    return found.role_prefix


def _grants_wait(conn: Connection, files: Migrations) -> bool:
    """Say whether roles have come to a server where none could be made, and nobody has given them their rights."""
    if roles.missing_roles(conn, files) or not roles.may_become(conn, roles.installed_owner(conn) or ""):
        return False
    with roles.as_owner_if_possible(conn):
        roles.pin(conn)
        return GRANTS not in ledger.applied(conn, "function_file")


def _patiently(conn: Connection, files: Migrations, ownership: Ownership, say: Say, repair: bool = False) -> Report:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _run(conn, files, ownership, say, repair)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as exc:
            if time.monotonic() > deadline:
                raise MigrationRefused(
                    f"other transactions kept Reproq's tables locked for {PATIENCE_S} s; end them (pg_stat_activity"
                    f" shows xact_start) and run `reproq migrate` again"
                ) from exc
            say("migrate: another transaction holds a lock on Reproq's tables; trying again")
        time.sleep(random.uniform(0.2, 1))


def _run(conn: Connection, files: Migrations, ownership: Ownership, say: Say, repair: bool = False) -> Report:
    with conn.transaction():
        _begin(conn)
        _become(conn, ownership)
        found = ledger.read(conn, files)
        waits = repair or (ownership.roles_exist and _grants_wait(conn, files))
        if _is_served(found) and (found.newer or not waits):
            return Report(found.installed, found.installed or 0)
        _refuse_foreign_schemas(conn, found)
        _make_ledger(conn)
        done = [*_apply_numbered(conn, files, say)]
        if repair:
            _apply_functions_of_numbered(conn, files)
        done += _apply_functions(conn, files, everything=repair or bool(done))
        done += _apply_grants(conn, files, ownership, changed=bool(done))
        conn.execute(as_sql(ledger.version_statement(files)))
    say(f"migrate: the schema is now version {files.schema_version} ({len(done)} files applied)")
    return Report(found.installed, files.schema_version, tuple(done))


def _begin(conn: Connection) -> None:
    """Wait for our turn without any time limit that a role or database may have set, then limit the waits for locks."""
    roles.lift_limits(conn)
    roles.pin(conn)
    conn.execute(as_sql(script.LOCK))
    conn.execute(as_sql(f"set local lock_timeout = '{DDL_LOCK_S}s'"))


def _become(conn: Connection, ownership: Ownership) -> None:
    if ownership.become:
        conn.execute(SQL("set local role {}").format(Identifier(ownership.become)))


def _refuse_foreign_schemas(conn: Connection, found: MigrationState) -> None:
    """Refuse to build into schemas that bear our names but hold somebody else's objects."""
    if found.installed is not None:
        return
    rows = conn.execute(as_sql(script.FOREIGN)).fetchall()
    if rows and not ledger.is_there(conn):
        names = ", ".join(str(row[0]) for row in rows)
        raise MigrationRefused(f"schema {names} exists already and isn't Reproq's: use another database for Reproq")


def _make_ledger(conn: Connection) -> None:
    for schema in roles.missing_schemas(conn):
        conn.execute(SQL("create schema {}").format(Identifier(schema)))
    conn.execute(as_sql(ledger.TABLES))


def _apply_numbered(conn: Connection, files: Migrations, say: Say) -> list[str]:
    applied = ledger.applied(conn, "migration")
    done = []
    for file in files.numbered:
        if file.name not in applied:
            say(f"migrate: {file.name}")
            _execute(conn, file)
            conn.execute(as_sql(ledger.note_statement("migration", file)))
            done.append(file.name)
        elif applied[file.name] != file.sha256:
            raise MigrationRefused(
                f"{file.name} was changed after it had been applied to this database: put its text back and write"
                " the change as a new numbered file"
            )
    return done


def _apply_functions(conn: Connection, files: Migrations, *, everything: bool) -> list[str]:
    """Apply the function files that changed; all of them after a numbered file, which may have dropped some."""
    applied = ledger.applied(conn, "function_file")
    gone = applied.keys() - {file.name for file in files.functions} - {GRANTS}
    conn.execute("delete from internal.function_file where name = any(%s)", [list(gone)])
    changed = [file for file in files.functions if everything or applied.get(file.name) != file.sha256]
    for file in changed:
        _execute(conn, file)
        conn.execute(as_sql(ledger.note_statement("function_file", file)))
    return [file.name for file in changed]


def _apply_functions_of_numbered(conn: Connection, files: Migrations) -> None:
    """Those that have no file of their own, as the last migration that made them says."""
    own = {file.name for file in files.functions}
    texts = {name: (file, text) for file in files.numbered for name, text in functions_in(file.text)}
    for name, (file, text) in texts.items():
        if name not in own:
            _execute(conn, dataclasses.replace(file, text=text))


def _apply_grants(conn: Connection, files: Migrations, ownership: Ownership, *, changed: bool) -> list[str]:
    applied = ledger.applied(conn, "function_file").get(GRANTS)
    if not ownership.roles_exist or not (changed or applied != files.grants.sha256):
        return []
    _execute(conn, files.grants)
    conn.execute(as_sql(ledger.reader_grants(files)))
    conn.execute(as_sql(ledger.note_statement("function_file", files.grants)))
    return [GRANTS]


def _execute(conn: Connection, file: SqlFile) -> None:
    """Run one file, and name it and the line when PostgreSQL refuses it."""
    if not file.text.strip():
        return
    try:
        conn.execute(as_sql(file.text))
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.OperationalError):
        raise
    except psycopg.Error as exc:
        line = file.text[: int(exc.diag.statement_position or 1)].count("\n") + 1
        exc.add_note(f"in {file.name}, line {line}")
        raise
