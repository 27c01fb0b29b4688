"""A database that is late is waited for: refused, time-out, starting up, full, read-only. Anything else is an error."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from reproq import log
from reproq.log import Event
from reproq.notify import notify

Answer = TypeVar("Answer")

FIRST_PAUSE, LONGEST_PAUSE, SAY_EVERY = 0.1, 3.0, 5.0


def patiently(action: Callable[[], Answer]) -> Answer:
    """Repeat until the server is there, with jitter and one line every five seconds."""
    import psycopg

    from reproq.db.errors import Kind, classify, first_line

    began = time.monotonic()
    said, pause = began - SAY_EVERY, FIRST_PAUSE
    while True:
        try:
            return action()
        except psycopg.Error as problem:
            if classify(problem) not in (Kind.LATE, Kind.BUSY):
                raise
            late = problem
        now = time.monotonic()
        if now - said >= SAY_EVERY:
            said = now
            _say(first_line(late), now - began)
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, LONGEST_PAUSE)


def _say(problem: str, waited: float) -> None:
    message = f"waiting for the database for {waited:.0f} s: {problem}"
    log.say(Event.DATABASE_LATE, message, logging.WARNING, waited_s=round(waited, 1))
    notify(f"STATUS={log.redact(message)}")
