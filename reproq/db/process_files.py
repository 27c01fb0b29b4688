"""Applying the user's own processes: numbered SQL files, each once, each in a transaction of its own, as the login.

The ledger is internal.process_file. Its row is written first, in the file's transaction: of two that apply the same
file the second waits there, and then finds it done.
"""

import hashlib
import random
import time
from pathlib import Path

import psycopg

from reproq.db import migrate
from reproq.db.connect import Connection, as_sql, connect
from reproq.db.errors import MigrationRefused
from reproq.db.migrate import DDL_LOCK_S, NAME, PATIENCE_S, Say
from reproq.db.migration import roles
from reproq.db.migration.files import SqlFile, with_prefix

_KEEP_TEXT = "select set_config('reproq.process_file', %s, true)"
_RUN_TEXT = "do $$ begin execute current_setting('reproq.process_file'); end $$"
_REFUSES_COMMIT = "exec_stmt_dynexecute"  # where the server says so; its code stands for more than this
_NOTE = "select internal.note_process_file(%s, %s, %s)"


def apply(dsn: str, folder: Path, *, source: str | None = None, say: Say = print) -> list[str]:
    """Apply what hasn't been applied yet, in order of the names; returns what was."""
    files = _read(folder)
    source = source or folder.resolve().name
    with connect(dsn, name=NAME) as conn:
        conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        conn.read_only = False
        prefix = _prefix(conn)
        return [file.name for file in files if _patiently(conn, source, file, prefix, say)]


def _read(folder: Path) -> list[SqlFile]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".sql" and path.name[:1].isdigit())
        texts = [path.read_text("utf-8") for path in paths]
    except (OSError, UnicodeDecodeError) as exc:
        raise MigrationRefused(f"the files in {folder} can't be read: {exc}") from exc
    if not paths:
        raise MigrationRefused(f"{folder} holds no file like 0001_name.sql: `reproq process new name` writes one")
    return [
        SqlFile(path.name, text, hashlib.sha256(text.encode()).hexdigest())
        for path, text in zip(paths, texts, strict=True)
    ]


def _prefix(conn: Connection) -> str:
    """The installation's role prefix; or refuse with the next step."""
    found = migrate.state(conn)
    if not found.readable:
        raise MigrationRefused(
            f"login {conn.info.user} may not install processes: have the owner run"
            f" `GRANT reproq_process_author TO {conn.info.user}`"
        )
    if not found.runnable:
        raise MigrationRefused("Reproq's own schema isn't there, or isn't up to date: run `reproq migrate` first")
    return found.role_prefix


def _patiently(conn: Connection, source: str, file: SqlFile, prefix: str, say: Say) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _apply(conn, source, file, prefix, say)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as exc:
            if time.monotonic() > deadline:
                raise MigrationRefused(
                    f"other transactions kept what {file.name} needs locked for {PATIENCE_S} s; end them"
                    " (pg_stat_activity shows xact_start) and try again"
                ) from exc
            say("migrate: another transaction holds a lock; trying again")
        time.sleep(random.uniform(0.2, 1))


def _apply(conn: Connection, source: str, file: SqlFile, prefix: str, say: Say) -> bool:
    with conn.transaction():
        roles.lift_limits(conn)
        if not _is_new(conn, source, file):
            return False
        say(f"migrate: {file.name}")
        conn.execute(as_sql(f"set local lock_timeout = '{DDL_LOCK_S}s'"))
        _run(conn, file, prefix)
    return True


def _is_new(conn: Connection, source: str, file: SqlFile) -> bool:
    try:
        return conn.execute(_NOTE, [source, file.name, file.sha256]).fetchone() == (True,)
    except psycopg.Error as exc:
        if exc.sqlstate == "RQ004":
            raise MigrationRefused(
                f"{exc.diag.message_primary}, from a folder that is called {source}: {exc.diag.message_hint} If it was"
                " another project's folder, give this one a --source of its own."
            ) from exc
        raise


def _run(conn: Connection, file: SqlFile, prefix: str) -> None:
    """Inside of a block, which can't end its transaction: a `commit` in the file undoes it and is told."""
    text = with_prefix(file.text, prefix)
    conn.execute(_KEEP_TEXT, [text])
    try:
        conn.execute(_RUN_TEXT)
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.OperationalError):
        raise
    except psycopg.Error as exc:
        line = text[: int(exc.diag.internal_position or 1)].count("\n") + 1
        if exc.diag.source_function == _REFUSES_COMMIT:
            raise MigrationRefused(
                f"{file.name} ends the transaction it runs in: take begin, commit, rollback and savepoint out of it;"
                " nothing of this file was applied"
            ) from exc
        exc.add_note(f"in {file.name}, line {line}; nothing of this file was applied")
        raise
