"""The dispatcher's one connection: each call waits for its answer, and for the database if that is away."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any

import psycopg

from reproq.db.errors import Kind, classify, first_line
from reproq.db.line import Call, Line, LineLost
from reproq.log import Event, say
from reproq.queue import outbox

_SILENCE_S = 20.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 3.0
_SAY_EVERY_S = 5.0


class GaveUp(Exception):
    """The database stayed away for longer than whoever asked could wait."""


class Counter:
    """`nap` waits for so long; it raises GaveUp when nobody waits for the answer any more."""

    def __init__(self, dsn: str, nap: Callable[[float], None]) -> None:
        self._dsn = dsn
        self._nap = nap
        self._line: Line | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._away_since = 0.0
        self._said_at = 0.0

    def ask(self, call: Call) -> Any:
        """Every call of a dispatcher may be made twice: a second one finds done what the first has done."""
        while True:
            try:
                answer = self._open().run(call, _SILENCE_S)
            except psycopg.Error as problem:
                self._endure(problem)
            else:
                self._back()
                return answer

    def fileno(self) -> int | None:
        return None if self._line is None else self._line.fileno()

    def was_notified(self) -> bool:
        """Reads what has come unasked. A connection that broke meanwhile is found out here."""
        if self._line is None:
            return False
        try:
            self._line.receive()
            return bool(self._line.notifications())
        except psycopg.Error as problem:
            self._endure(problem)
            return False

    def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _open(self) -> Line:
        if self._line is None:
            line = Line.open(self._dsn, "reproq dispatcher")
            try:
                line.run(outbox.listen(), _SILENCE_S)
            except BaseException:
                line.close()
                raise
            self._line = line
        return self._line

    def _endure(self, problem: psycopg.Error) -> None:
        """Waits a while if waiting helps; else raises."""
        kind = classify(problem)
        if kind not in (Kind.LATE, Kind.BUSY) and not isinstance(problem, LineLost):
            raise problem
        if kind is not Kind.BUSY:
            self.close()
            self._say_away(problem)
        pause, self._pause_s = self._pause_s, min(self._pause_s * 2, _LONGEST_PAUSE_S)
        self._nap(pause * random.uniform(0.5, 1.0))

    def _say_away(self, problem: psycopg.Error) -> None:
        now = time.monotonic()
        words = first_line(problem)
        if not self._away_since:
            self._away_since = self._said_at = now
            say(Event.DATABASE_LOST, f"waiting for the database: {words}", logging.WARNING)
        elif now - self._said_at >= _SAY_EVERY_S:
            self._said_at = now
            waited = now - self._away_since
            say(
                Event.DATABASE_LATE,
                f"waiting for the database for {waited:.0f} s: {words}",
                logging.WARNING,
                waited_s=round(waited, 1),
            )

    def _back(self) -> None:
        self._pause_s = _FIRST_PAUSE_S
        if self._away_since:
            say(Event.DATABASE_BACK, "connected again", away_s=round(time.monotonic() - self._away_since, 1))
            self._away_since = 0.0
