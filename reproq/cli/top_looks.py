"""What `reproq top` knows: looks at the database, one after the other, and the rates between them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from reproq.db.connect import Connection, connect
from reproq.db.errors import first_line
from reproq.db.migration.roles import as_owner_if_possible
from reproq.models.errors import ReproqError
from reproq.queue import run
from reproq.queue.overview import overview

WINDOW_S = 5.0  # rates are means over these last seconds
HISTORY = 60
PATIENCE_S = 5


class MayNotLook(ReproqError):
    """This login may not call queues.overview."""


@dataclass(frozen=True)
class Step:
    """What happened between two looks. `out` is None where a count was at its bound, so that nothing can be told."""

    seconds: float
    came: dict[str, float]
    out: dict[str, float | None]
    came_in_all: float
    out_in_all: float
    is_estimate: bool


@dataclass
class Picture:
    """All that a screen shows."""

    look: dict[str, Any]
    server: str
    database: str
    rates: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    came_per_s: float | None = None
    out_per_s: float | None = None
    out_is_estimate: bool = False
    came_history: list[float] = field(default_factory=list)
    out_history: list[float] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """For programs."""
        queues = [
            queue | dict(zip(("in_per_s", "out_per_s"), self.rates.get(queue["name"], (None, None)), strict=True))
            for queue in self.look["queues"]
        ]
        rates = {"in_per_s": self.came_per_s, "out_per_s": self.out_per_s, "out_is_estimate": self.out_is_estimate}
        known = {"at": self.look["at"], "database": self.database, "server": self.server, "most": self.look["most"]}
        return known | rates | {"queues": queues, "workers": self.look["workers"]}


def step_between(before: dict[str, Any], after: dict[str, Any]) -> Step:
    """What left is what came less the growth of what is open; where that can't be counted, half of the rows' changes:
    a task is claimed and finished."""
    most = after["most"]
    old = {queue["name"]: queue for queue in before["queues"]}
    new = {queue["name"]: queue for queue in after["queues"]}
    counted = sum(queue["came"] for queue in new.values())
    drawn = after["last_id"] - before["last_id"]
    is_short = (
        counted >= most
    )  # more came than one look counts: the numbers drawn tell how many, the count their shares
    came = {name: queue["came"] * (drawn / counted if is_short else 1.0) for name, queue in new.items()}
    out: dict[str, float | None] = {}
    for name in new.keys() | old.keys():
        bounded = is_short or any(_is_bounded(look[name], most) for look in (old, new) if name in look)
        growth = _open(new.get(name)) - _open(old.get(name))
        out[name] = None if bounded else max(0.0, came.get(name, 0.0) - growth)
    is_estimate = None in out.values()
    in_all = (after["updates"] - before["updates"]) / 2 if is_estimate else sum(value or 0.0 for value in out.values())
    return Step(after["at"] - before["at"], came, out, sum(came.values()), max(0.0, in_all), is_estimate)


def _is_bounded(queue: dict[str, Any], most: int) -> bool:
    return any(queue[count] >= most for count in ("ready", "later", "waiting"))


def _open(queue: dict[str, Any] | None) -> float:
    return 0.0 if queue is None else float(queue["ready"] + queue["later"] + queue["waiting"] + queue["running"])


def _place(connection: Connection) -> str:
    host, port = connection.info.host, connection.info.port
    return host if port == 5432 else f"{host}:{port}"


class Looks:
    """One look after the other over one connection, which is opened again when it was lost."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Connection | None = None
        self._last: dict[str, Any] | None = None
        self._steps: deque[Step] = deque(maxlen=HISTORY)
        self._as_owner = False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def look(self) -> Picture:
        try:
            connection = self._connected()
            look = self._asked(connection)
        except psycopg.Error:
            self.close()
            raise
        if self._last is not None and look["at"] > self._last["at"]:
            self._steps.append(step_between(self._last, look))
        self._last = look
        number = connection.info.server_version
        server = f"PostgreSQL {number // 10000}.{number % 10000}"
        return self._with_rates(Picture(look, server, f"{connection.info.dbname}@{_place(connection)}"))

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = connect(self._dsn, name="reproq top", timeout_s=PATIENCE_S)
        return self._connection

    def _asked(self, connection: Connection) -> dict[str, Any]:
        call = overview(None if self._last is None else int(self._last["last_id"]))
        look: dict[str, Any]
        try:
            if not self._as_owner:
                try:
                    look = run(connection, call)
                    return look
                except psycopg.errors.InsufficientPrivilege:
                    self._as_owner = True
            with as_owner_if_possible(connection):
                look = run(connection, call)
                return look
        except psycopg.errors.InsufficientPrivilege:
            user = connection.info.user
            raise MayNotLook(
                f"the login {user} may not look at all queues: give --database-url of the owner or an administrator, "
                f"or let one of them run `grant reproq_reader to {user}`"
            ) from None
        except (psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName):
            raise MayNotLook(
                f"database {connection.info.dbname} has no Reproq, or an older one: run `reproq migrate`"
            ) from None

    def _with_rates(self, picture: Picture) -> Picture:
        window = self._window()
        seconds = sum(step.seconds for step in window)
        if not seconds:
            return picture
        for queue in picture.look["queues"]:
            name = queue["name"]
            out = [step.out.get(name, 0.0) for step in window]
            known = [value for value in out if value is not None]
            left = sum(known) / seconds if len(known) == len(out) else None
            picture.rates[name] = (sum(step.came.get(name, 0.0) for step in window) / seconds, left)
        picture.came_per_s = sum(step.came_in_all for step in window) / seconds
        picture.out_per_s = sum(step.out_in_all for step in window) / seconds
        picture.out_is_estimate = any(step.is_estimate for step in window)
        picture.came_history = [step.came_in_all / step.seconds for step in self._steps]
        picture.out_history = [step.out_in_all / step.seconds for step in self._steps]
        return picture

    def _window(self) -> list[Step]:
        window: list[Step] = []
        for step in reversed(self._steps):
            window.append(step)
            if sum(one.seconds for one in window) >= WINDOW_S:
                break
        return window


class Watch:
    """Looks on a thread of its own: a database that doesn't answer holds up no key."""

    def __init__(self, looks: Looks, interval_s: float, first: Picture, wake: Callable[[], None]) -> None:
        self._looks, self._interval_s, self._wake = looks, interval_s, wake
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="looks", daemon=True)
        self.picture = first
        self.looked_at = time.monotonic()
        self.trouble: str | None = None
        self.away_since = 0.0

    def start(self) -> None:
        self._thread.start()

    @property
    def silent_s(self) -> float:
        """For how long an answer is overdue."""
        return max(0.0, time.monotonic() - self.looked_at - self._interval_s)

    def stop(self) -> None:
        """Without waiting for a look that is under way."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                self.picture = self._looks.look()
                self.looked_at = time.monotonic()
                self.trouble = None
            except (psycopg.Error, MayNotLook) as problem:
                if self.trouble is None:
                    self.away_since = time.monotonic()
                self.trouble = first_line(problem)
            self._wake()
