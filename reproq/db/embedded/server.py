"""The server in a folder: started, joined, stopped.

It listens on loopback TCP only (scram), in its own session, so that Ctrl-C on the terminal reaches the worker and not
the server. A live server in the folder is joined, and only its starter stops it; a starter that was killed leaves the
server running, and the next one to join takes the duty over. What lies in the folder: see folder.py.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg import sql

from reproq.db import migrate
from reproq.db.connect import Connection, connect
from reproq.db.embedded import binaries as installations
from reproq.db.embedded import identity
from reproq.db.embedded.binaries import Binaries
from reproq.db.embedded.folder import Folder
from reproq.db.embedded.launch import HOST, START_S, Launch
from reproq.db.errors import EmbeddedError

DATABASE = "reproq"
STOP_S = 60
_NAME = "reproq embedded"
_MEMBERSHIPS = {"reproq_worker": "worker_service_user", "reproq_app_login": "reproq_app"}


def default_folder() -> Path:
    """Return where the kept server lies unless the user names a folder."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(base) / "reproq/embedded"


class EmbeddedServer:
    """One server in one folder: start() starts or joins it, stop() stops it if we started it."""

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        binaries: Binaries | None = None,
        kept: bool = True,
    ) -> None:
        self.folder = Path(folder or default_folder()).absolute()
        self.joined = False
        self.port = 0
        self.pid = 0
        self._settings = dict(settings or {})
        self.binaries = binaries
        self._kept = kept
        self._files = Folder(self.folder)
        self._credentials: dict[str, Any] = {}
        self._starter_lock: int | None = None
        self._launched: Launch | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def admin_dsn(self) -> str:
        """The superuser's address."""
        return self.dsn("postgres")

    @property
    def worker_dsn(self) -> str:
        """The address for a worker, which may call the worker's functions and nothing else; needs install()."""
        return self.dsn("reproq_worker")

    def app_dsn(self, database: str = DATABASE) -> str:
        """Return the address for an application, which may enqueue, cancel and ask; needs install()."""
        return self.dsn("reproq_app_login", database)

    def dsn(self, login: str, database: str = DATABASE) -> str:
        """Return the address of a database as one of the server's logins."""
        return f"postgresql://{login}:{self._credentials['passwords'][login]}@{HOST}:{self.port}/{database}"

    def start(self) -> Self:
        """Start the server, or join the one that lives in the folder; it is ready when this returns."""
        self._files.make()
        try:
            self._start()
        except OSError as exc:
            raise self._files.unusable(exc) from exc
        return self

    def restart(self) -> None:
        """Start it again after it has ended by itself: the same data, the same port where it is free."""
        self._release()
        if self._process:
            self._process.wait(STOP_S)
        self.start()

    def _start(self) -> None:
        with self._files.starting():
            self._starter_lock = self._files.try_lock("starter.lock")
            try:
                self._start_or_join()
                self._create_database()
            except BaseException:
                if self._launched and self._process:
                    self._launched.abandon(self._process)
                self._release()
                raise

    def stop(self) -> None:
        """Stop the server if we started it; otherwise leave it to its starter."""
        if self.port and self.folder.exists():
            with self._files.starting():
                if not self.joined:
                    self._stop_server()
        self._release()
        self.port = 0

    def install(self, say: Callable[[str], None] = print) -> None:
        """Bring the database's schema up to date and make the two logins that are no superuser."""
        migrate.migrate(self.admin_dsn, say=say)
        with self._files.starting(), connect(self.admin_dsn, name=_NAME) as conn:
            for login, role in _MEMBERSHIPS.items():
                _make_login(conn, login, role, self._credentials["passwords"][login])

    # Starting

    def _start_or_join(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if (lock := self._files.try_lock("server.lock")) is not None:
                try:
                    return self._launch(lock)
                finally:
                    os.close(lock)
            if self._try_join():
                return None
            time.sleep(0.05)
        raise EmbeddedError(
            f"a server holds {self.folder} but doesn't answer on {HOST} (is it another container's, or still"
            f" ending?): look into {self._files.log}, end it, or name another folder with --embedded-dir"
        )

    def _try_join(self) -> bool:
        found = self._files.postmaster()
        if not found or not found[2]:
            return False
        self.pid, self.port, _ = found
        self._credentials = self._files.credentials()
        try:
            connect(self.dsn("postgres", "postgres"), name=_NAME, timeout_s=2).close()
        except psycopg.OperationalError:
            return False
        self.joined = self._starter_lock is None
        return True

    def _launch(self, lock: int) -> None:
        chosen = self.installed
        self._credentials = self._files.credentials()
        self._launched = Launch(self._files, chosen, identity.choose(chosen, self.folder), self._settings, self._kept)
        started = self._launched.start(self._credentials, lock)
        self._process, self.pid, self.port, self.joined = started.process, started.pid, started.port, False
        if self._credentials["port"] != self.port:
            self._credentials["port"] = self.port
            self._files.save(self._credentials)

    @property
    def installed(self) -> Binaries:
        """The programs that belong to this server: psql, pg_dump …"""
        major = self._files.major()
        chosen = self.binaries or installations.find()
        if major in (None, chosen.major):
            return chosen
        try:
            return installations.find(major)
        except EmbeddedError:
            raise EmbeddedError(
                f"{self._files.data} was made by PostgreSQL {major}, but {chosen.folder} is {chosen.version}:"
                f" install PostgreSQL {major}, or name another folder with --embedded-dir (the data moves by"
                f" pg_dump and psql)"
            ) from None

    def _create_database(self) -> None:
        with connect(self.dsn("postgres", "postgres"), name=_NAME) as conn:
            if not conn.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone():
                conn.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))

    # Stopping

    def _stop_server(self) -> None:
        # Else it has ended, or another process has started a new one, or the number is another program's by now.
        if self._files.postmaster_pid() == self.pid and self._files.is_home_of(self.pid):
            if self._kept or not self._process:
                self._signal_and_wait()
            else:
                self._process.terminate()  # the keeper, which removes the folder too
        if self._process:
            self._process.wait(STOP_S)

    def _signal_and_wait(self) -> None:
        """Fast shutdown; one that hangs becomes an immediate one, whose recovery the next start does."""
        try:
            watched = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
                signal.pidfd_send_signal(watched, number)
                if select.select([watched], [], [], STOP_S)[0]:
                    return
        except ProcessLookupError:
            return
        finally:
            os.close(watched)

    def _release(self) -> None:
        if self._starter_lock is not None:
            os.close(self._starter_lock)
            self._starter_lock = None


def _make_login(conn: Connection, login: str, role: str, password: str) -> None:
    name = sql.Identifier(login)
    if not conn.execute("select 1 from pg_roles where rolname = %s", [login]).fetchone():
        conn.execute(sql.SQL("create role {} login password {}").format(name, sql.Literal(password)))
    if conn.execute("select 1 from pg_roles where rolname = %s", [role]).fetchone():
        conn.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), name))
    for setting in ("log_parameter_max_length", "log_parameter_max_length_on_error"):  # they are payloads and results
        conn.execute(sql.SQL("alter role {} set {} = 0").format(name, sql.Identifier(setting)))
