"""Clients of a fresh database, and one database for tests that store nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from reproq.client import (
    Client,
)
from reproq.db.connect import as_sql, connect
from reproq.db.embedded import EmbeddedServer
from tests.conftest import Database


@pytest.fixture(scope="module")
def untouched(server: EmbeddedServer, migrated: Callable[[EmbeddedServer], None]) -> Iterator[Database]:
    """One database for all tests whose point is that nothing gets stored."""
    migrated(server)
    made = Database(server, f"untouched_{os.getpid()}")
    with connect(server.dsn("postgres", "postgres"), name="test") as admin:
        admin.execute(as_sql(f"create database {made.name} template reproq"))
        yield made
        admin.execute(as_sql(f"drop database {made.name} with (force)"))


@pytest.fixture(scope="module")
def refused(untouched: Database) -> Iterator[Client]:
    with Client(untouched.app_dsn) as made:
        yield made


@pytest.fixture
def client(database: Database) -> Iterator[Client]:
    with Client(database.app_dsn) as made:
        yield made
