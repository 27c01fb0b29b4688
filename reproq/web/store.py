"""Short calls: a few connections of their own, so that nobody who asks waits for those who wait.

A statement that the database refused becomes a problem of the caller's, a database that is away becomes a 503.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from reproq.db.connect import AsyncConnection, as_sql, options
from reproq.db.errors import Kind, classify
from reproq.db.line import Call
from reproq.db.migration.files import load
from reproq.db.processes.status import status_functions
from reproq.queue import run_async
from reproq.queue.waiting import Sight, process_status, see_task
from reproq.queue.workers import serves_code
from reproq.web.problems import Problem, away
from reproq.web.processes import sight_of

CONNECTIONS = 4
PATIENCE_S = 2.0
LIMIT_S = 10.0
_PROCESSES_KEPT_S = 60.0
_CONFLICTS = {"42501": (403, "not-granted"), "RQ004": (403, "not-granted")}


class Store:
    def __init__(self, dsn: str) -> None:
        settings = options(dsn, name="reproq serve")
        self._pool: AsyncConnectionPool[AsyncConnection] = AsyncConnectionPool(
            as_sql(dsn), kwargs=settings, min_size=1, max_size=CONNECTIONS, timeout=PATIENCE_S, open=False,
            max_waiting=200, check=AsyncConnectionPool.check_connection, reconnect_timeout=5, name="gateway",
        )  # fmt: skip
        self._version = load().schema_version
        self._served, self._served_until = False, 0.0
        self._functions: dict[str, str] = {}
        self._functions_until = 0.0

    async def open(self) -> None:
        await self._pool.open()

    async def close(self) -> None:
        await self._pool.close(timeout=2)

    async def run(self, call: Call, *, writes: bool = False) -> Any:
        """`writes`: when the answer is lost, nobody knows whether it was done."""
        connected = False
        try:
            async with asyncio.timeout(LIMIT_S), self._pool.connection() as connection:
                connected = True
                return await run_async(connection, call)
        except psycopg.Error as problem:
            raise _told(problem, unsure=writes and connected) from problem
        except TimeoutError as problem:
            raise _told(problem, unsure=writes and connected) from problem

    async def task(self, number: int) -> Sight:
        found = await self.run(see_task(number))
        return found[0]  # type: ignore[no-any-return]

    async def process(self, function: str, number: int) -> Sight:
        rows = await self.run(process_status(function, [number]))
        return sight_of(*rows[0])

    async def is_served(self) -> bool:
        """Whether the schema is one for this code. Anybody may ask, so the answer is kept for a second."""
        if time.monotonic() >= self._served_until:
            self._served = await self.run(serves_code(self._version))
            self._served_until = time.monotonic() + 1
        return self._served

    async def process_function(self, name: str) -> str | None:
        """The function that tells how such a process stands; None: no such process for this login."""
        if name not in self._functions and time.monotonic() >= self._functions_until:
            self._functions = await self.run(status_functions())
            self._functions_until = time.monotonic() + _PROCESSES_KEPT_S
        return self._functions.get(name)


def _told(problem: BaseException, *, unsure: bool) -> Problem:
    if isinstance(problem, PoolTimeout) or not isinstance(problem, psycopg.Error):
        return _away(unsure and not isinstance(problem, PoolTimeout))
    kind, state = classify(problem), problem.sqlstate or ""
    if state in _CONFLICTS:
        status, code = _CONFLICTS[state]
        return Problem(status, code, _words(problem))
    if kind is Kind.DATA:
        return Problem(422, "refused", _words(problem), **_hint(problem))
    if kind in (Kind.LATE, Kind.BUSY):
        return _away(unsure)
    raise problem


def _away(unsure: bool) -> Problem:
    if unsure:
        return away("the answer was lost: it may be done or not. With an Idempotency-Key it can safely be sent again")
    return away("the database is away; nothing was done")


def _words(problem: psycopg.Error) -> str:
    """The server's sentence. What it may quote of the caller's own values is the caller's."""
    return problem.diag.message_primary or "refused by the database"


def _hint(problem: psycopg.Error) -> dict[str, Any]:
    hint = problem.diag.message_hint
    return {"hint": hint} if hint else {}
