"""A connection with one statement in flight, for an event loop.

psycopg's cursors wait; a runner has children to attend to. So this drives libpq (psycopg.pq) without waiting: send()
puts a statement on the wire, the loop watches fileno(), receive() answers when the whole result is there. run() is the
same for a thread of its own, with a limit in time that holds even when the server or the network says nothing at all.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import pq

from reproq.db.connect import connect

Rows = list[list[bytes | None]]


@dataclass(frozen=True, slots=True)
class Call:
    """One statement with its parameters as text, and how to read its answer."""

    sql: bytes
    params: Sequence[bytes | None]
    read: Callable[[Rows], Any]


class LineLost(psycopg.OperationalError):
    """The connection ended, or said nothing in time. Whether the statement took effect is not known."""


class Line:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._pgconn.nonblocking = 1
        self._call: Call | None = None
        self.sent_at = 0.0

    @classmethod
    def open(cls, dsn: str, name: str, timeout_s: float = 5) -> Line:
        """Waits for the connection: never call it on a loop's thread."""
        return cls(connect(dsn, name=name, timeout_s=timeout_s))

    @property
    def busy(self) -> bool:
        return self._call is not None

    @property
    def backend_pid(self) -> int:
        return self._pgconn.backend_pid

    def fileno(self) -> int:
        return self._pgconn.socket

    def send(self, call: Call) -> None:
        if self._call is not None:
            raise RuntimeError("a statement is in flight already")
        self._call = call
        self.sent_at = time.monotonic()
        try:
            self._pgconn.send_query_params(call.sql, call.params)
            self.flush()
        except psycopg.Error as exc:
            raise self._lost(exc) from None

    def flush(self) -> bool:
        """True when all of the statement is on the wire; else the loop calls again when the socket is writable."""
        return self._pgconn.flush() == 0

    def receive(self) -> tuple[bool, Any]:
        """(True, answer) when it has come; raises what the server raised, LineLost when the connection is gone."""
        try:
            self._pgconn.consume_input()
            if self._call is None or self._pgconn.is_busy():
                return False, None
            result = self._last_result()
        except psycopg.OperationalError as exc:
            raise self._lost(exc) from None
        call, self._call = self._call, None
        if result is None:
            raise self._lost(None)
        if result.status == pq.ExecStatus.FATAL_ERROR:
            raise self._error(result)
        width = range(result.nfields)
        return True, call.read([[result.get_value(i, j) for j in width] for i in range(result.ntuples)])

    def notifications(self) -> list[str]:
        """Payloads that have arrived; consume with receive() first."""
        found: list[str] = []
        while (notify := self._pgconn.notifies()) is not None:
            found.append(notify.extra.decode(errors="replace"))
        return found

    def run(self, call: Call, timeout_s: float) -> Any:
        """send() and wait. Over the time: LineLost, and the connection is closed."""
        self.send(call)
        until = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN | (0 if self.flush() else select.POLLOUT))
        while True:
            left = until - time.monotonic()
            if left <= 0:
                self.close()
                raise LineLost(f"no answer within {timeout_s:g} s")
            if not poll.poll(left * 1000):
                continue
            poll.modify(self.fileno(), select.POLLIN | (0 if self.flush() else select.POLLOUT))
            arrived, answer = self.receive()
            if arrived:
                return answer

    def stop(self, timeout_s: float) -> None:
        """Ask the server to give the statement up, wait so long for that, and close. Not on a loop's thread."""
        with suppress(psycopg.Error):
            self._connection.cancel_safe(timeout=timeout_s)
        self.close()

    def close(self) -> None:
        self._call = None
        self._connection.close()

    def _last_result(self) -> pq.abc.PGresult | None:
        last = None
        while (result := self._pgconn.get_result()) is not None:
            last = result
        return last

    def _error(self, result: pq.abc.PGresult) -> psycopg.Error:
        error = psycopg.errors.error_from_result(result, encoding="utf-8")
        if self._pgconn.status != pq.ConnStatus.OK:
            return self._lost(error)
        return error

    def _lost(self, cause: psycopg.Error | None) -> LineLost:
        words = str(cause).strip() if cause else self._pgconn.error_message.decode(errors="replace").strip()
        self.close()
        return LineLost(next(iter(words.splitlines()), "") or "the server closed the connection")
