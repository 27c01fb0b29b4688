"""What the runner's tests share: a small migrations folder, servers of their own, logins of every kind."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from reproq.db.connect import connect
from reproq.db.embedded import UNSAFE_AND_FAST, EmbeddedServer, throwaway
from reproq.db.embedded.binaries import Binaries

from . import folders

_numbers = itertools.count(1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small migrations folder of version 1."""
    return folders.small(tmp_path / "migrations")


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
    binaries: Binaries | None = server.binaries
    with throwaway(UNSAFE_AND_FAST, binaries) as own:
        yield own
