"""What the runner's tests share: a small migrations folder, servers of their own, logins of every kind."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from reproq.db.connect import connect
from reproq.db.embedded import UNSAFE_AND_FAST, EmbeddedServer, binaries, throwaway
from tests.conftest import fast_folder

from . import aids

ROOT = Path(__file__).parents[2]
_numbers = itertools.count(1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small migrations folder of version 1."""
    return aids.small(tmp_path / "migrations")


@pytest.fixture
def prefix() -> str:
    """A role prefix that no other test uses: roles are the whole server's."""
    return f"t{next(_numbers)}_"


@pytest.fixture
def new_login(server: EmbeddedServer) -> Iterator[Callable[..., str]]:
    """Make a login with the given attributes; returns its DSN for a database (its name is made up)."""
    made: list[str] = []

    def make(database: Any, attributes: str = "", *, owns: bool = False) -> str:
        made.append(f"login_{next(_numbers)}")
        name = sql.Identifier(made[-1])
        with connect(database.dsn, name="test") as conn:
            conn.execute(sql.SQL("create role {} login password 'x' ").format(name) + sql.SQL(attributes))
            if owns:
                conn.execute(sql.SQL("alter database {} owner to {}").format(sql.Identifier(database.name), name))
        return f"postgresql://{made[-1]}:x@127.0.0.1:{server.port}/{database.name}"

    yield make


@pytest.fixture
def own_server(server: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """A server nobody else uses, of the same kind: its roles are whatever the test makes them."""
    with throwaway(UNSAFE_AND_FAST, server.binaries, fast_folder()) as own:
        yield own


@pytest.fixture
def psql(server: EmbeddedServer, tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run a script with `psql -f`, the server's own psql where it has one."""
    own, default = Path(server.installed.program("psql")), Path(binaries.find().program("psql"))

    def run(dsn: str, script: str, *options: str) -> "subprocess.CompletedProcess[str]":
        file = tmp_path / "script.sql"
        file.write_text(script)
        command = [str(own if own.exists() else default), "-X", "-q", *options, "-f", str(file), dsn]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def start() -> Iterator[aids.Start]:
    """Run a program of ours in a process of its own; what it prints can be read line by line."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, *args: object, **options: object) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", code, *map(str, args)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, text=True, cwd=ROOT, **pipes, **options))  # type: ignore[call-overload]
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()
