"""Enqueue inside YOUR transaction: psycopg, SQLAlchemy, Django, by what the object can do, never by import."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reproq.client.errors import translated


def first_value(connection: Any, sql: str, values: Sequence[object]) -> Any:
    """Run one statement on the caller's connection, in the caller's transaction, and answer its first value."""
    try:
        return _run(connection, sql, values)
    except Exception as error:
        ours = translated(error)
        if ours is None:
            raise
        raise ours from error


def _run(connection: Any, sql: str, values: Sequence[object]) -> Any:
    _refuse_asynchronous(connection)
    if hasattr(connection, "get_bind") and not hasattr(connection, "exec_driver_sql"):  # SQLAlchemy's Session
        connection = connection.connection()
    if hasattr(connection, "exec_driver_sql"):
        style = getattr(getattr(connection, "dialect", None), "paramstyle", "format")
        return connection.exec_driver_sql(_in_style(sql, style), tuple(values)).scalar()
    psycopg = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(connection, (psycopg.Connection, psycopg.Cursor)):
        return _run_psycopg(psycopg, connection, sql, values)
    if hasattr(connection, "fetchone") and hasattr(connection, "execute"):
        return _run_cursor(connection, sql, values)
    if hasattr(connection, "cursor") and not isinstance(connection, type):
        with connection.cursor() as cursor:
            return _run_cursor(cursor, sql, values)
    raise _not_a_connection(connection)


def _run_psycopg(psycopg: Any, connection: Any, sql: str, values: Sequence[object]) -> Any:
    """A cursor of our own: the caller's may have another row factory or another parameter style."""
    own = connection.connection if isinstance(connection, psycopg.Cursor) else connection
    with psycopg.Cursor(own, row_factory=psycopg.rows.tuple_row) as cursor:
        return cursor.execute(sql.encode(), values).fetchone()[0]


def _run_cursor(cursor: Any, sql: str, values: Sequence[object]) -> Any:
    cursor.execute(sql, tuple(values))
    row = cursor.fetchone()
    return next(iter(row.values())) if isinstance(row, Mapping) else row[0]


def _in_style(sql: str, style: str) -> str:
    """asyncpg under SQLAlchemy counts its parameters: $1, $2."""
    if style not in ("numeric", "numeric_dollar"):
        return sql
    sign = "$" if style == "numeric_dollar" else ":"
    numbers: Iterator[int] = iter(range(1, 1000))
    return re.sub("%s", lambda _match: f"{sign}{next(numbers)}", sql)


def _refuse_asynchronous(connection: Any) -> None:
    if any(inspect.iscoroutinefunction(getattr(connection, name, None)) for name in ("commit", "execute")):
        raise TypeError(
            f"{type(connection).__name__} is asynchronous; with SQLAlchemy write "
            "`await session.run_sync(lambda s: Client.enqueue_in(s, …))`, else call queues.enqueue(…) in SQL"
        )


def _not_a_connection(connection: Any) -> TypeError:
    wanted = "a psycopg or psycopg2 connection or cursor, a SQLAlchemy Connection or Session, or Django's connection"
    advice = "; take one from it first: `with engine.begin() as connection:`" if hasattr(connection, "begin") else ""
    return TypeError(f"enqueue_in needs {wanted}, not {type(connection).__name__}{advice}")
