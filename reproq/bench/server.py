"""The server that everything is measured on: an own one, durable, or the user's.

On a user's server the bench touches nothing but what it makes itself: databases, logins and roles whose names start
with `reproq_bench_`, gone at the end.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from reproq.bench import procfs
from reproq.bench.figures import LeftOut
from reproq.bench.statements import statement
from reproq.db import migrate
from reproq.db.connect import Connection, connect
from reproq.db.embedded import sweep, throwaway
from reproq.db.embedded.binaries import find
from reproq.db.errors import EmbeddedError

# Durable: fsync and synchronous_commit stay on. The rest is what a server of this size is given anyway: a quarter of
# the memory (more than 4 GB no run needs), and no checkpoint in the middle of a minute.
_BUFFERS_MB = min(4096, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 >> 20)
SETTINGS = {"shared_buffers": f"{_BUFFERS_MB}MB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
NAME = "reproq bench"
TEMPLATE = "template"
_URL_KEYS = ("host", "port", "user", "password", "dbname")


@dataclass
class Server:
    admin: str  # the address of a login that may make databases and roles
    bins: Path | None  # psql, pgbench …
    embedded: bool
    folder: Path | None = None
    prefix: str = field(default_factory=lambda: f"reproq_bench_{secrets.token_hex(2)}_")
    password: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    def address(self, database: str, login: str | None = None) -> str:
        """A URL, which every driver understands. `database` is a name of ours, without the prefix."""
        changes = {"dbname": self.prefix + database}
        if login:
            changes |= {"user": self.prefix + login, "password": self.password}
        return _url(self.admin, **changes)

    def connect(self, database: str | None = None, login: str | None = None) -> Connection:
        return connect(self.address(database, login) if database else self.admin, name=NAME)

    def prepare(self) -> None:
        """One migrated database that every other is copied from, and two logins that are nothing special."""
        self.make(TEMPLATE, template="template0")
        migrate.migrate(self.address(TEMPLATE), role_prefix=self.prefix, say=lambda _line: None)
        with self.connect() as connection:
            for login, role in (("worker", "worker_service_user"), ("app", "reproq_app")):
                connection.execute(
                    sql.SQL("create role {} login password {} in role {}").format(
                        sql.Identifier(self.prefix + login),
                        sql.Literal(self.password),
                        sql.Identifier(self.prefix + role),
                    )
                )

    def make(self, name: str, template: str | None = None) -> None:
        template = template or self.prefix + TEMPLATE
        with self.connect() as connection:
            connection.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(self.prefix + name), sql.Identifier(template)
                )
            )

    def drop(self, name: str) -> None:
        with self.connect() as connection:
            connection.execute(
                sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(self.prefix + name))
            )

    def clean(self) -> None:
        """Remove what prepare() and make() left; roles can go only when no database knows them."""
        with self.connect() as connection:
            for (name,) in connection.execute(statement("our_databases"), [self.prefix]).fetchall():
                connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(str(name))))
            for (name,) in connection.execute(statement("our_roles"), [self.prefix]).fetchall():
                connection.execute(sql.SQL("drop role {}").format(sql.Identifier(str(name))))

    def postmaster(self) -> int | None:
        """Its pid, if it runs on this machine: then our backend's title names the port that we called from."""
        with self.connect() as connection:
            backend = connection.info.backend_pid
            with socket.socket(fileno=os.dup(connection.fileno())) as ours:
                caller = f"({ours.getsockname()[1]})" if ours.family != socket.AF_UNIX else "[local]"
            title = procfs.command(backend)
            return procfs.parent(backend) if title.startswith("postgres: ") and caller in title else None

    def program(self, name: str) -> str:
        if self.bins and (self.bins / name).is_file():
            return str(self.bins / name)
        raise LeftOut(f"no {name} here")


@contextmanager
def durable() -> Iterator[Server]:
    """An own server, gone afterwards; its folder lies on a real disk."""
    folder = _on_disk()
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        sweep()
        with throwaway(SETTINGS) as server:
            tempfile.tempdir = before
            yield Server(server.admin_dsn, server.installed.folder, True, server.folder)
    finally:
        tempfile.tempdir = before


@contextmanager
def given(dsn: str) -> Iterator[Server]:
    try:
        bins: Path | None = find().folder
    except EmbeddedError:
        bins = None
    server = Server(_url(dsn), bins, embedded=False)
    with connect(server.admin, name=server.prefix) as alive:  # its name tells other benches that what we make is in use
        _check_might(alive)
        for (prefix,) in alive.execute(statement("orphans")).fetchall():
            Server(server.admin, bins, embedded=False, prefix=str(prefix)).clean()
        try:
            yield server
        finally:
            with _undisturbed():
                server.clean()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C doesn't leave databases and roles behind on somebody's server."""
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_might(connection: Connection) -> None:
    row = connection.execute(statement("may_make")).fetchone()
    if not row or not all(row):
        user = connection.info.user
        raise LeftOut(
            f"the bench makes databases and logins of its own and removes them at the end, and {user} may not: "
            f"use a superuser, or ALTER ROLE {user} CREATEDB CREATEROLE"
        )


def _on_disk() -> str:
    """Memory file systems make fsync free: a folder on one would flatter every figure."""
    for folder in (os.environ.get("REPROQ_BENCH_DIR"), tempfile.gettempdir(), "/var/tmp"):  # noqa: S108 - 0700 inside
        if folder and file_system(Path(folder)) not in ("tmpfs", "ramfs"):
            return folder
    raise LeftOut("every temporary folder lies in memory: name one on a disk with REPROQ_BENCH_DIR")


def file_system(folder: Path) -> str:
    """The type of the file system that holds a folder."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _device, place, found, *_ = line.split()
        if folder.resolve().is_relative_to(place) and len(place) >= len(best):
            best, kind = place, found
    return kind


def _url(dsn: str, **changes: str) -> str:
    parts = {**conninfo_to_dict(dsn), **changes}
    user, password = quote(str(parts.get("user", "postgres")), safe=""), parts.get("password")
    who = f"{user}:{quote(str(password), safe='')}" if password else user
    host = str(parts.get("host", "127.0.0.1"))
    query = {name: value for name, value in parts.items() if name not in _URL_KEYS}
    if host.startswith("/"):
        query["host"], host = host, ""
    more = f"?{urlencode(query)}" if query else ""
    return f"postgresql://{who}@{host}:{parts.get('port', 5432)}/{parts.get('dbname', 'postgres')}{more}"


def libpq_environment(dsn: str) -> dict[str, str]:
    """For programs that take their address from the environment, where `ps` doesn't show it."""
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    names["sslmode"] = "PGSSLMODE"
    return {variable: str(parts[name]) for name, variable in names.items() if parts.get(name) is not None}
