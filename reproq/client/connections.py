"""The client's own connections: opened when needed, kept for the next call, as many as there are callers at one time.

A server may close an idle connection at any time. That is seen before a statement is sent, by looking whether the
socket has something to read, so that nothing is ever sent twice. Only a caller whose statement may run twice (a read,
an enqueue with an idempotency key) has it repeated after a loss. A forked process never touches its parent's sockets.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from reproq.client.errors import ClientError, ConnectionLost, translated

if TYPE_CHECKING:
    from reproq.db.calls import Calls
    from reproq.db.connect import PatientConnection

Answer = TypeVar("Answer")

_PATIENCE_S = 5.0  # with a server that doesn't take a connection


class Connections:
    def __init__(self, dsn: str, name: str) -> None:
        self._dsn = dsn
        self._name = name
        self._pid = os.getpid()
        self._idle: deque[Calls] = deque()
        self._of_parent: list[deque[Calls]] = []

    def text(self, sql: str, values: Sequence[str | None], *, repeatable: bool) -> str | None:
        """Run one statement that commits by itself, and answer its one text."""
        return self._ask(lambda calls: calls.text(sql, values), repeatable, None)

    def row(
        self, sql: str, values: Sequence[object], *, repeatable: bool, until: float | None = None
    ) -> tuple[Any, ...] | None:
        """The same with its first row, as Python's objects. `until` (monotonic): wait no longer."""
        return self._ask(lambda calls: calls.connection.execute(sql.encode(), values).fetchone(), repeatable, until)

    def _ask(self, question: Callable[[Calls], Answer], repeatable: bool, until: float | None) -> Answer:
        import psycopg

        try:
            return self._once(question, until)
        except (psycopg.Error, UnicodeEncodeError) as error:
            is_late = until is not None and time.monotonic() >= until
            if not (repeatable and _is_loss(error)) or is_late:
                raise _explained(error, repeatable) from error
        self.close()  # what broke one connection broke the others
        try:
            return self._once(question, until)
        except psycopg.Error as error:
            raise _explained(error, repeatable) from error

    def _once(self, question: Callable[[Calls], Answer], until: float | None) -> Answer:
        calls = self._take(until)
        calls.connection.patient_until = until
        try:
            answer = question(calls)
        except BaseException:
            # Interrupted in the middle, the connection would hand this answer to the next caller.
            _keep_if_idle(calls, self._idle)
            raise
        self._idle.append(calls)
        return answer

    def _take(self, until: float | None) -> Calls:
        if self._pid != os.getpid():
            self._of_parent.append(self._idle)  # closing them would end the parent's sessions
            self._idle, self._pid = deque(), os.getpid()
        while self._idle:
            try:
                calls = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if _is_alive(calls.connection):
                return calls
            calls.connection.close()
        return self._open(until)

    def _open(self, until: float | None) -> Calls:
        import psycopg

        from reproq.db.calls import Calls
        from reproq.db.connect import connect
        from reproq.db.reach import way_out

        try:
            patience_s = _PATIENCE_S if until is None else min(_PATIENCE_S, max(0.0, until - time.monotonic()))
            connection = connect(self._dsn, name=self._name, timeout_s=patience_s)
            connection.patient_until = until
            return Calls(connection)
        except psycopg.Error as error:
            why = _first_line(error)
            raise ConnectionLost(f"can't reach the database, nothing was stored: {why}", way_out(why)) from error

    def close(self) -> None:
        while self._idle and self._pid == os.getpid():
            try:
                self._idle.pop().connection.close()
            except IndexError:
                return


def _is_alive(connection: PatientConnection) -> bool:
    """An idle server has nothing to say but farewell (or a changed setting: then a new connection costs little)."""
    if connection.closed:
        return False
    watch = select.poll()
    watch.register(connection.fileno(), select.POLLIN)
    return not watch.poll(0)


def _keep_if_idle(calls: Calls, idle: deque[Calls]) -> None:
    from psycopg.pq import TransactionStatus

    connection = calls.connection
    if not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE:
        idle.append(calls)
    else:
        connection.close()


def _is_loss(error: BaseException) -> bool:
    """No code = the connection broke; 57P0x = the server was shutting down."""
    import psycopg

    if not isinstance(error, psycopg.OperationalError):
        return False
    state = error.sqlstate
    return state is None or state in ("57P01", "57P02", "57P03") or state.startswith("08")


def _explained(error: BaseException, repeatable: bool) -> ClientError:
    if _is_loss(error):
        return _unsure(error, repeatable)
    return translated(error) or ClientError(_first_line(error), None, getattr(error, "sqlstate", None))


def _unsure(lost: BaseException, repeatable: bool) -> ConnectionLost:
    why = _first_line(lost)
    if repeatable:
        return ConnectionLost(f"no answer came ({why})", "the same call can be repeated safely")
    return ConnectionLost(
        f"the connection broke before the answer came ({why})",
        "it may or may not have been stored; with an idempotency_key the same call can be repeated safely",
    )


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
