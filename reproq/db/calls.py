"""Statements that answer one text, straight to libpq: psycopg's cursors take 30 µs for each, a tenth of an enqueue."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import errors, generators
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from reproq.db.connect import PatientConnection, is_direct

_PREPARE_AFTER = 3  # parsing and planning a call cost 40 µs
_MOST_PREPARED = 100
_DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


class Calls:
    """A connection that remembers which statements the server knows already, if there is no pooler before it."""

    def __init__(self, connection: PatientConnection) -> None:
        self.connection = connection
        self._uses: dict[str, int] = {}
        self._names: dict[str, bytes] = {}
        self._prepares = is_direct(connection)
        connection.prepare_threshold = _PREPARE_AFTER if self._prepares else None

    def text(self, sql: str, values: Sequence[str | None]) -> str | None:
        """Of its first row; `%s` stands for a value, as with psycopg."""
        data = [None if value is None else value.encode() for value in values]
        if any(b"\0" in value for value in data if value is not None):
            raise errors.DataError("PostgreSQL text can't hold NUL (0x00) bytes")
        name = self._names.get(sql) or self._prepare(sql)
        if name is None:
            self.connection.pgconn.send_query_params(_numbered(sql), data)
        else:
            self.connection.pgconn.send_query_prepared(name, data)
        answer = self._answer().get_value(0, 0)
        return None if answer is None else answer.decode()

    def _prepare(self, sql: str) -> bytes | None:
        if not self._prepares or len(self._names) == _MOST_PREPARED:
            return None
        self._uses[sql] = self._uses.get(sql, 0) + 1
        if self._uses[sql] <= _PREPARE_AFTER:
            return None
        name = b"reproq %d" % len(self._names)
        self.connection.pgconn.send_prepare(name, _numbered(sql))
        self._answer()
        self._names[sql] = name
        return name

    def _answer(self) -> PGresult:
        result: PGresult = self.connection.wait(generators.execute(self.connection.pgconn))[-1]
        if result.status not in _DONE:
            raise errors.error_from_result(result, encoding="utf-8")
        return result


def _numbered(sql: str) -> bytes:
    first, *parts = sql.split("%s")
    return (first + "".join(f"${n}{part}" for n, part in enumerate(parts, 1))).encode()
