"""One way to open a connection.

Nothing here may leave state behind in the session: behind a pooler in transaction mode the next statement may run in
another one. So no `options`, no SET, and prepared statements only where there is no pooler (is_direct); what a caller
needs it sets with SET LOCAL.
"""

import math
import time
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

Connection = psycopg.Connection[tuple[object, ...]]
Result = TypeVar("Result")


class PatientConnection(psycopg.Connection[tuple[object, ...]]):
    """`patient_until` (monotonic) is when to give up waiting for an answer: a server that is frozen says nothing for
    ever, though its host acknowledges what we send. The connection is of no use then."""

    patient_until: float | None = None

    def wait(self, gen: Generator[Any, Any, Result], *how: Any, **else_: Any) -> Result:
        until = self.patient_until
        return super().wait(gen if until is None else _until(gen, until), *how, **else_)


def _until(gen: Generator[Any, Any, Result], moment: float) -> Generator[Any, Any, Result]:
    """A generator of psycopg's, which is told ten times a second that nothing has come."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= moment:
                raise psycopg.OperationalError("no answer came in time")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: Result = end.value
        return result


AsyncConnection = psycopg.AsyncConnection[tuple[object, ...]]

# A dead peer is noticed within 15 s when idle (keepalives) and within 10 s while bytes are unacknowledged.
_LIVENESS = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 10_000,
}


def connect(dsn: str, *, name: str, timeout_s: float = 5) -> PatientConnection:
    """Open an autocommit connection that notices a dead peer; a value in the DSN wins over ours."""
    with _nothing_left_open():
        return PatientConnection.connect(dsn, **options(dsn, name=name, timeout_s=timeout_s))


async def connect_async(dsn: str, *, name: str, timeout_s: float = 5) -> AsyncConnection:
    """The same, for an event loop."""
    with _nothing_left_open():
        return await psycopg.AsyncConnection.connect(dsn, **options(dsn, name=name, timeout_s=timeout_s))


@contextmanager
def _nothing_left_open() -> Iterator[None]:
    """An attempt that failed lives on in its error's traceback, in a cycle: its socket would stay open until the next
    garbage collection, and a network that swallows packets for a while left a handful of them."""
    try:
        yield
    except psycopg.Error as problem:
        traceback.clear_frames(problem.__traceback__)
        raise


def options(dsn: str, *, name: str, timeout_s: float = 5) -> dict[str, Any]:
    """What each of our connections is opened with, also those of a pool."""
    given = conninfo_to_dict(dsn)
    usual: dict[str, Any] = {**_LIVENESS, "connect_timeout": max(1, math.ceil(timeout_s))}
    missing = {key: value for key, value in usual.items() if key not in given}
    ours = {"autocommit": True, "prepare_threshold": None, "application_name": name, "client_encoding": "utf8"}
    return missing | ours


def is_direct(connection: Connection) -> bool:
    """Say whether a prepared statement will be found again.

    A pooler tells its clients a number of its own, and may send each statement to another server process.
    """
    return connection.execute("select pg_backend_pid()").fetchone() == (connection.info.backend_pid,)


def as_sql(text: str) -> LiteralString:
    """Vouch for SQL text that comes from our own files, which psycopg's types can't know."""
    return text
