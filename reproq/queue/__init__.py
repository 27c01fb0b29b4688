"""The queue, one thin call for each function of the schema `queues`; the caller owns connection and transaction.

A function here makes a Call, a statement as a value. The runner sends it over a Line without waiting; run() sends it
over any psycopg connection, in whatever transaction that is in.
"""

from __future__ import annotations

from typing import Any

import psycopg

from reproq.db.connect import as_sql
from reproq.db.line import Call


def run(connection: psycopg.Connection[Any], call: Call) -> Any:
    """Executes and answers what the call's function promises."""
    params = [None if value is None else value.decode() for value in call.params]
    with psycopg.RawCursor(connection) as cursor:
        cursor.execute(as_sql(call.sql.decode()), params)
        return _read(call, cursor.pgresult)


async def run_async(connection: psycopg.AsyncConnection[Any], call: Call) -> Any:
    """The same, for an event loop."""
    params = [None if value is None else value.decode() for value in call.params]
    async with psycopg.AsyncRawCursor(connection) as cursor:
        await cursor.execute(as_sql(call.sql.decode()), params)
        return _read(call, cursor.pgresult)


def _read(call: Call, result: psycopg.pq.abc.PGresult | None) -> Any:
    assert result is not None
    return call.read([[result.get_value(i, j) for j in range(result.nfields)] for i in range(result.ntuples)])
