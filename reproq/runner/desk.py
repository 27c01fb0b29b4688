"""A line to the database with its errands, one after the other, and the patience to wait for the database to come back.

An errand whose answer was lost goes out again as it was: every function of the queue may be called twice with the same
fence. An errand that must not simply be repeated says so (`lost`).

A server that says nothing for so long is taken for lost: its statement is stopped, if that can be, and there is twice
the patience for the next. Else a look at a bloated index, or a finish behind somebody's lock, would be begun anew for
ever. Ten minutes after the last long answer the patience is what it was.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from reproq.db.errors import Kind, classify, first_line
from reproq.db.line import Call, Line, LineLost
from reproq.log import Event, say
from reproq.runner.loop import READ, Loop

_PAUSE_S, _MAX_PAUSE_S = 0.1, 5.0
_SILENCE_S, _MAX_SILENCE_S = 20.0, 600.0
_REMEMBER_S = 600.0
_STOP_S = 2.0
_SAY_EVERY_S = 5.0


@dataclass(slots=True)
class Errand:
    call: Call
    done: Callable[[Any], None]
    refused: Callable[[psycopg.Error], None] | None = None  # the values were at fault; else it is said and tried again
    lost: Callable[[], None] | None = None  # no answer came; else it is sent again
    sent_ns: int = 0


class Desk:
    def __init__(self, loop: Loop, dsn: str, name: str, silence_s: float = _SILENCE_S, *, calm: bool = False) -> None:
        self._loop = loop
        self._dsn = dsn
        self.name = name
        self._silence_s = self._patience_s = silence_s
        self._slow_at = -math.inf
        self._calm = calm
        self._line: Line | None = None
        self._given_up: Line | None = None  # it said nothing for too long
        self._connecting = False
        self._errands: deque[Errand] = deque()
        self._current: Errand | None = None
        self._pause_s = _PAUSE_S
        self._away_since = 0.0
        self._said_at = 0.0
        self._closed = False
        self._resting = False
        self.reconnects = 0
        self.on_connect: Callable[[], None] | None = None

    @property
    def idle(self) -> bool:
        return self._line is not None and self._current is None and not self._errands

    @property
    def connected(self) -> bool:
        return self._line is not None

    @property
    def waiting(self) -> int:
        return len(self._errands) + (self._current is not None)

    def open(self) -> None:
        self._connect()

    def send(self, errand: Errand, *, first: bool = False) -> None:
        if first:
            self._errands.appendleft(errand)
        else:
            self._errands.append(errand)
        self._next()

    def close(self) -> None:
        self._closed = True
        self._drop()

    def check_silence(self) -> None:
        """A network that swallows packets looks like a server that thinks."""
        line, now = self._line, time.monotonic()
        if self._current is None or line is None or now - line.sent_at <= self._patience_s:
            return
        silent = LineLost(f"no answer within {self._patience_s:g} s")
        self._slow_at = now
        self._patience_s = min(_MAX_SILENCE_S, 2 * self._patience_s)
        self._given_up = self._take_line()
        self._lose(silent)

    def _answered(self, line: Line) -> None:
        """Patience lasts while it is needed."""
        now = time.monotonic()
        if now - line.sent_at > self._silence_s / 2:
            self._slow_at = now
        elif now - self._slow_at > _REMEMBER_S:
            self._patience_s = self._silence_s

    def _next(self) -> None:
        if self._line is None or self._current is not None or not self._errands or self._resting:
            return
        errand = self._current = self._errands.popleft()
        errand.sent_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        try:
            self._line.send(errand.call)
        except psycopg.Error as exc:
            self._lose(exc)
            return
        if not self._line.flush():
            self._loop.want_write(self._line.fileno(), True)

    def _served(self, event: int) -> None:
        line = self._line
        assert line is not None
        try:
            if event & ~READ and line.flush():
                self._loop.want_write(line.fileno(), False)
            arrived, answer = line.receive()
        except LineLost as exc:
            self._lose(exc)
        except psycopg.Error as exc:
            self._failed(exc)
        else:
            if arrived:
                self._pause_s = _PAUSE_S
                self._answered(line)
                self._finish(answer)

    def _finish(self, answer: Any) -> None:
        errand, self._current = self._current, None
        if errand is not None:
            errand.done(answer)
        self._next()

    def _failed(self, exc: psycopg.Error) -> None:
        errand, self._current = self._current, None
        assert errand is not None
        kind = classify(exc)
        if kind is Kind.DATA and errand.refused is not None:
            errand.refused(exc)
            self._next()
            return
        if kind is not Kind.BUSY:
            say(Event.DATABASE_ERROR, f"{self.name}: {first_line(exc)}", logging.WARNING, sqlstate=exc.sqlstate)
        if kind is Kind.LATE:  # the server refuses to work: a standby, or one that is shutting down
            self._current = errand
            self._lose(exc)
            return
        self._resting = True
        self._loop.after(self._grow_pause(), self._rested)
        self._again(errand)

    def _rested(self) -> None:
        self._resting = False
        self._next()

    def _again(self, errand: Errand) -> None:
        if errand.lost is not None:
            errand.lost()
        else:
            self._errands.appendleft(errand)

    def _lose(self, exc: Exception) -> None:
        errand, self._current = self._current, None
        if not self._away_since:
            self._away_since = time.monotonic()
            say(Event.DATABASE_LOST, f"{self.name}: connection lost, trying again: {first_line(exc)}", logging.WARNING)
        self._drop()
        if errand is not None:
            self._again(errand)
        self._loop.after(self._grow_pause(), self._connect)

    def _drop(self) -> None:
        line = self._take_line()
        if line is not None:
            line.close()

    def _take_line(self) -> Line | None:
        line, self._line = self._line, None
        if line is not None:
            self._loop.unwatch(self._fd)
        return line

    def _grow_pause(self) -> float:
        pause = self._pause_s
        self._pause_s = min(_MAX_PAUSE_S / 5 if self._away_since else _MAX_PAUSE_S, pause * 2)
        return pause * random.uniform(0.5, 1.5)

    def _connect(self) -> None:
        if self._connecting or self._line is not None or self._closed:
            return
        self._connecting = True
        threading.Thread(target=self._open_line, name=f"connect {self.name}", daemon=True).start()

    def _open_line(self) -> None:
        """On a thread of its own: a connection may take its whole time-out."""
        given_up, self._given_up = self._given_up, None
        if given_up is not None:
            given_up.stop(_STOP_S)
        try:
            line = Line.open(self._dsn, f"reproq {self.name}")
        except psycopg.Error as exc:
            error = exc  # the name `exc` ends with the block
            self._loop.post(lambda: self._not_connected(error))
        else:
            self._loop.post(lambda: self._connected(line))

    def _not_connected(self, exc: psycopg.Error) -> None:
        self._connecting = False
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._said_at >= _SAY_EVERY_S:
            self._said_at = now
            say(
                Event.DATABASE_LATE,
                f"{self.name}: waiting for the database: {first_line(exc)}",
                logging.WARNING,
                waiting_s=round(now - self._away_since, 1),
            )
        if not self._closed:
            self._loop.after(self._grow_pause(), self._connect)

    def _connected(self, line: Line) -> None:
        self._connecting = False
        if self._closed:
            line.close()
            return
        self._line = line
        self._fd = line.fileno()
        self._loop.watch(self._fd, self._served, calm=self._calm)
        if self._away_since:
            self.reconnects += 1
            say(
                Event.DATABASE_BACK,
                f"{self.name}: connected again",
                away_s=round(time.monotonic() - self._away_since, 1),
            )
            self._away_since = 0.0
        if self.on_connect is not None:
            self.on_connect()
        self._next()
