"""A connection for one command; what the database refuses is one line with the next step in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reproq.cli.options import database_address
from reproq.config import SettingsError

if TYPE_CHECKING:
    from reproq.db.connect import Connection


@contextmanager
def connected(flags: dict[str, Any], name: str) -> Iterator[Connection]:
    import psycopg

    from reproq.client.errors import translated
    from reproq.db.connect import connect

    with connect(database_address(flags), name=name) as connection:
        try:
            yield connection
        except psycopg.Error as error:
            ours = translated(error)
            if ours is None:
                raise
            raise ours from error


@contextmanager
def seeing(flags: dict[str, Any], name: str, what: str) -> Iterator[Connection]:
    """For reading tables: as the owner, where the login may become it."""
    from psycopg.errors import InsufficientPrivilege

    from reproq.db.connect import connect
    from reproq.db.migration.roles import as_owner_if_possible

    with connect(database_address(flags), name=name) as connection:
        try:
            with as_owner_if_possible(connection):
                yield connection
        except InsufficientPrivilege:
            raise SettingsError(
                f"the login {connection.info.user} may not see {what}: give --database-url of the owner or an "
                "administrator"
            ) from None
