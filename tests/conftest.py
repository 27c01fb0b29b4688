"""Real servers for the tests: one of each kind per test process, a fresh copy of a migrated database per test."""

import itertools
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from psycopg.sql import SQL, Composed, Identifier

from reproq.db.connect import Connection, as_sql, connect
from reproq.db.embedded import UNSAFE_AND_FAST, EmbeddedServer, throwaway
from reproq.db.embedded import binaries as embedded_binaries
from reproq.db.embedded.binaries import Binaries
from reproq.db.errors import EmbeddedError

EVERY_SERVER_ROOMS = ("tests/db", "tests/queue")
LOGINS = {"admin": "postgres", "worker": "reproq_worker", "app": "reproq_app_login"}


class Database:
    """One database of one test, and its three logins."""

    def __init__(self, server: EmbeddedServer, name: str) -> None:
        self.server = server
        self.name = name
        self.dsn = server.dsn("postgres", name)
        self.worker_dsn = server.dsn("reproq_worker", name)
        self.app_dsn = server.dsn("reproq_app_login", name)
        self._opened: list[Connection] = []

    def connect(self, role: str = "admin") -> Connection:
        """Open a connection as admin, worker or app; it is closed after the test."""
        self._opened.append(connect(self.server.dsn(LOGINS[role], self.name), name=f"test {role}"))
        return self._opened[-1]

    def execute(self, statement: str, *args: object) -> list[tuple[Any, ...]]:
        """Run one statement as admin in its own transaction, and return its rows."""
        with connect(self.dsn, name="test") as conn:
            cursor = conn.execute(as_sql(statement), args or None)
            return list(cursor.fetchall()) if cursor.description else []

    def close(self) -> None:
        """Close what connect() opened."""
        for conn in self._opened:
            conn.close()


def _servers_here() -> dict[str, Binaries]:
    """Return parameter id → binaries: the default, then the system's, then those that TEST_POSTGRES_BINS names."""
    found = [("embedded", embedded_binaries.find())]
    if (system := embedded_binaries.system()) and system != found[0][1]:
        found.append(("system", system))
    for folder in filter(None, os.environ.get("TEST_POSTGRES_BINS", "").split(":")):
        if (extra := embedded_binaries.at(Path(folder))) is None:
            raise EmbeddedError(f"TEST_POSTGRES_BINS names {folder}, where no server runs")
        found.append(("extra", extra))
    return {f"{kind}-{binaries.major}": binaries for kind, binaries in found}


SERVERS = _servers_here()
# Each test has a database of its own. On ext4 a copy takes up to a second where others were dropped a moment ago (it
# goes past every inode that was freed lately), in memory 50 ms.
_MEMORY = Path("/dev/shm")
_NEEDED = 4 << 30


def fast_folder() -> Path | None:
    """In memory, if there is room for the servers of a few test processes; else where temporary files go."""
    try:
        roomy = shutil.disk_usage(_MEMORY).free >= _NEEDED and os.access(_MEMORY, os.W_OK | os.X_OK)
    except OSError:
        return None
    return _MEMORY if roomy else None


def copy_of(template: str, server: EmbeddedServer, name: str) -> Composed:
    """The statement that makes a database by copying files: through the write-ahead log it takes thrice as long."""
    by_files = SQL(" strategy file_copy" if server.binaries is None or server.binaries.major >= 15 else "")
    return SQL("create database {} template {}{}").format(Identifier(name), Identifier(template), by_files)


def pytest_configure() -> None:
    """Ctrl-C means the same to what the tests start, also where a shell's background job ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    lines = [f"PostgreSQL {kind}: {binaries.version} in {binaries.folder}" for kind, binaries in SERVERS.items()]
    if not any(kind.startswith("system") for kind in SERVERS):
        lines.append("PostgreSQL of the system: none found, so the tests run on the embedded one only")
    return lines


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" not in metafunc.fixturenames:
        return
    path = metafunc.definition.path.relative_to(metafunc.config.rootpath).as_posix()
    on_all = path.startswith(EVERY_SERVER_ROOMS) or metafunc.definition.get_closest_marker("every_server")
    metafunc.parametrize("server", list(SERVERS) if on_all else list(SERVERS)[:1], indirect=True, scope="session")


@pytest.fixture(scope="session")
def running() -> Iterator[Callable[[str], EmbeddedServer]]:
    """Start each kind of server at its first use, and keep it until the end (a parametrized fixture would not)."""
    started: dict[str, EmbeddedServer] = {}
    with ExitStack() as stack:

        def get(kind: str) -> EmbeddedServer:
            if kind not in started:
                started[kind] = stack.enter_context(throwaway(UNSAFE_AND_FAST, SERVERS[kind], fast_folder()))
            return started[kind]

        yield get


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, running: Callable[[str], EmbeddedServer]) -> EmbeddedServer:
    """A running server without Reproq's schema (the database `reproq` gets it when a test asks for a `database`)."""
    return running(request.param)


@pytest.fixture(scope="session")
def migrated() -> Callable[[EmbeddedServer], None]:
    """Install Reproq once in a server's own database, which every test's database is copied from."""
    done: set[Path] = set()

    def install(server: EmbeddedServer) -> None:
        if server.folder not in done:
            server.install(say=lambda _: None)
            done.add(server.folder)

    return install


_numbers = itertools.count(1)


@pytest.fixture
def new_database(server: EmbeddedServer) -> Iterator[Callable[..., Database]]:
    """Make databases that are dropped after the test: empty ones, or copies of another."""
    made: list[Database] = []

    def make(template: str = "template0") -> Database:
        made.append(Database(server, f"test_{os.getpid()}_{next(_numbers)}"))
        with connect(server.dsn("postgres", "postgres"), name="test") as conn:
            conn.execute(copy_of(template, server, made[-1].name))
        return made[-1]

    yield make
    with connect(server.dsn("postgres", "postgres"), name="test") as conn:
        for database in made:
            database.close()
            conn.execute(as_sql(f"drop database if exists {database.name} with (force)"))


@pytest.fixture
def database(
    server: EmbeddedServer, migrated: Callable[[EmbeddedServer], None], new_database: Callable[..., Database]
) -> Database:
    """A fresh database with Reproq's schema."""
    migrated(server)
    return new_database("reproq")
