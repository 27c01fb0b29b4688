"""Applications: they enqueue, note what they were told, and may lose the answer."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection, connect
from tests.faults.evidence import Enqueue

_MANY = "select queues.enqueue_many(%s, %s, max_attempts => %s, priority => %s)"


class Client:
    """One application with one connection; every task gets a token of its own into its payload."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn = dsn
        self._name = name
        self._numbers = itertools.count()
        self._connection: Connection | None = None
        self.notes: list[Enqueue] = []

    def connection(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._dsn, name=f"client {self._name}")
        return self._connection

    def enqueue(
        self, task_type: str, payloads: Sequence[dict[str, Any]], *, max_attempts: int = 3, priority: int = 0
    ) -> list[int]:
        """In one statement, acknowledged when this returns. Raises what psycopg raises; then nobody knows."""
        tokens = [f"{self._name}-{next(self._numbers)}" for _ in payloads]
        tagged = [Jsonb({**payload, "n": token}) for token, payload in zip(tokens, payloads, strict=True)]
        ids: Sequence[int | None] = [None] * len(tokens)
        outcome = "unknown"
        try:
            row = self.connection().execute(_MANY, (task_type, tagged, max_attempts, priority)).fetchone()
            assert row is not None
            ids, outcome = row[0], "committed"  # type: ignore[assignment]
        finally:
            self.notes += [Enqueue(token, outcome, id_) for token, id_ in zip(tokens, ids, strict=True)]
        return [id_ for id_ in ids if id_ is not None]

    def roll_back(self, task_type: str, payload: dict[str, Any]) -> None:
        """Enqueue, see the id, and change one's mind."""
        token = f"{self._name}-{next(self._numbers)}"
        try:
            with self.connection().transaction(force_rollback=True):
                arguments = (task_type, [Jsonb({**payload, "n": token})], 3, 0)
                self.connection().execute(_MANY, arguments)
        finally:
            self.notes.append(Enqueue(token, "rolled_back"))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class Repeated:
    """A call in a thread of its own, again and again until the block ends; what it raises, the block's end raises."""

    def __init__(self, call: Callable[[], object], every_s: float) -> None:
        self._call = call
        self._every_s = every_s
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Repeated:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._call()
            except BaseException as error:  # noqa: BLE001  (the block's end raises it)
                self._error = error
                return
            self._over.wait(self._every_s)


def patiently(call: Callable[[], object]) -> Callable[[], None]:
    """An application that goes on when the database is away."""

    def tried() -> None:
        try:
            call()
        except psycopg.Error:
            pass

    return tried
