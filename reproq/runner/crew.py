"""The pools of one worker: which types each serves, and how much each wants claimed."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from reproq.config import Limits, Settings
from reproq.executor.guard_client import child_command, system_command
from reproq.executor.members import Child, Confinement, Kind
from reproq.executor.pool import Pool
from reproq.models.execution import Execution

FUNCTION_TYPES = ("db_function",)
CHANNEL_TYPES = ("email", "sms")
MAX_BATCH = 500
_SHORT_S, _MEDIUM_S = 0.001, 0.05
_LINES_S, _MOST_LINES = 0.05, 96
_LEAST_LONG_S, _LONG_IN_MEANS = 0.004, 3
_AHEAD_S = 0.1  # how much work a pool may have waiting, in seconds of its own recent rate
_MOST_AHEAD = 3 * MAX_BATCH  # so that none is idle until the next batch has come
_RATE_WINDOW_S = 0.1
_SHORTEST_WINDOW_S = 0.02
_FEW = 4
_CONFIRM_S = 0.02
_SHORT_PAUSE_S = 0.002
_PAUSES_S = (0.005, 0.02, 0.08, 0.32)


class Station:
    """A pool with the tasks that wait for it."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        pool.station = self
        self.known = False  # whether a child has said which types it serves
        self.registered = False  # and the database has heard: a claim goes by a type's own settings
        self.ready: deque[Execution] = deque()
        self.unconfirmed: deque[Execution] = deque()  # last attempts: their start must be committed first
        self.confirming = 0
        self.rate = 0.0
        self.done = 0
        self.ends: Counter[str] = Counter()  # of its children, by cause
        self.traces = False  # its children want to hear of a task's trace
        self.contains = False  # some of its types want nothing of a task left when it has ended
        self.next_claim_at = 0.0
        self._misses = 0
        self._mean_s = _SHORT_S * 5
        self.least_s = 0.0  # that a task has taken lately
        self._counted = 0
        self._counted_at = time.monotonic()

    @property
    def name(self) -> str:
        return self.pool.kind.name

    @property
    def members(self) -> Iterable[Child]:
        return self.pool.children.values()

    @property
    def waiting(self) -> int:
        return len(self.ready) + len(self.unconfirmed) + self.confirming

    @property
    def weight(self) -> int:
        """Bytes of the payloads that wait here."""
        return sum(execution.weight for line in (self.ready, self.unconfirmed) for execution in line)

    @property
    def depth(self) -> int:
        """How many lines a child may have: several where waiting for the next one would cost more than the task."""
        if self._mean_s >= _MEDIUM_S or self.contains or not self.pool.kind.packets:
            return 1
        return max(2, min(_MOST_LINES, int(_LINES_S / max(self._mean_s, _LINES_S / _MOST_LINES))))

    @property
    def is_short(self) -> bool:
        """Its tasks take less time than it takes to care for one of them."""
        return self._mean_s < _SHORT_S

    @property
    def is_steady(self) -> bool:
        """Its tasks take milliseconds: long enough to count, and short enough for lines to wait behind them."""
        return not self.is_short and self.depth > 1

    @property
    def long_s(self) -> float:
        """A task that runs for longer must not keep others waiting behind it."""
        return max(_LEAST_LONG_S, self._mean_s * _LONG_IN_MEANS)

    def note(self, ran_s: float) -> None:
        """One more task is done."""
        self.done += 1
        self._mean_s += (ran_s - self._mean_s) * 0.05
        self.least_s = min(ran_s, self.least_s + (ran_s - self.least_s) * 0.05)

    def count(self, now: float) -> None:
        """The rate of the recent past: it rises with the first few tasks, and halves with each window without work."""
        span, done = now - self._counted_at, self.done - self._counted
        if span >= _RATE_WINDOW_S:
            self.rate = max(done / span, self.rate * 0.5 ** (span / _RATE_WINDOW_S))
            self._counted, self._counted_at = self.done, now
        elif done >= _FEW:
            self.rate = max(self.rate, done / max(span, _SHORTEST_WINDOW_S))

    def wants(self) -> int:
        """How many to claim now: what can start at once, and what will be able to start soon."""
        if not self.registered:
            return 0
        possible = 2 * self.pool.kind.size / self._mean_s if self._mean_s else math.inf  # as tasks have been of late
        ahead = int(min(_MOST_AHEAD, min(self.rate, possible) * _AHEAD_S))
        idle = len(self.pool.idle)
        waiting = self.waiting
        if waiting > self._enough(ahead) and waiting >= idle:
            return 0
        return max(0, min(MAX_BATCH, max(ahead, idle) - waiting))

    def _enough(self, ahead: int) -> int:
        """With no more left it is time to claim again. Lines that wait in the sockets give more time for that."""
        return max(ahead // 4, 2 * self.pool.kind.size) if self.is_steady else ahead // 2

    def serves(self, task_type: str) -> bool:
        kind = self.pool.kind
        if kind.types is not None:
            return task_type in kind.types
        if kind.prefixes is not None:
            return task_type.startswith(kind.prefixes)
        return task_type in self.pool.types

    def may_serve(self, task_type: str) -> bool:
        """Whether a child of this pool may say anything about a type: only about its own."""
        return self.serves(task_type) if self.pool.kind.types or self.pool.kind.prefixes else True

    def to_confirm(self) -> list[Execution]:
        """The next last attempts whose start is to be committed: as many as can begin soon, one batch at a time."""
        if self.confirming or not self.unconfirmed:
            return []
        room = max(len(self.pool.idle), int(self.rate * _CONFIRM_S)) - len(self.ready)
        if room <= 0:
            return []
        batch = [self.unconfirmed.popleft() for _ in range(min(room, len(self.unconfirmed)))]
        self.confirming = len(batch)
        return batch

    def take_back(self, older_than: float | None) -> list[Execution]:
        """What waits here, all of it or what was claimed before a moment."""
        found: list[Execution] = []
        for line in (self.ready, self.unconfirmed):
            while line and (older_than is None or line[0].claimed_at < older_than):
                found.append(line.popleft())
        return found

    def got(self, count: int, wanted: int, now: float, poll_s: float) -> None:
        """What a claim brought decides when to ask again: a pool without work must not hold up one that has some."""
        if count:
            self._misses = 0
            self.next_claim_at = now if count >= wanted else now + _SHORT_PAUSE_S
        else:
            pause = _PAUSES_S[self._misses] if self._misses < len(_PAUSES_S) else poll_s
            self._misses += 1
            self.next_claim_at = now + pause

    def wake(self) -> None:
        """Something may have come: ask at once, and more often again."""
        self._misses = 0
        self.next_claim_at = 0.0

    def want(self, leave_unknown: bool) -> dict[str, Any]:
        """This pool as queues.claim wants to see it."""
        kind = self.pool.kind
        wanted: dict[str, Any] = {"free": self.wants()}
        if kind.types is not None:
            wanted["types"] = kind.types
        elif kind.prefixes is not None and kind.packets and leave_unknown:
            wanted["types"] = list(self.pool.types)
        elif kind.prefixes is not None:
            wanted["prefixes"] = kind.prefixes
        elif leave_unknown:
            wanted["types"] = list(self.pool.types)
        return wanted


def kinds(settings: Settings) -> list[Kind]:
    """System types first, then the prefixes of custom commands, then the app's children for the rest."""
    found = _system_kinds(settings)
    limits = {entry.prefix: entry for entry in settings.limits}
    for i, command in enumerate(settings.commands):
        found.append(
            Kind(
                f"command{i}",
                command.command,
                command.processes,
                prefixes=(command.prefix,),
                cwd=str(command.cwd) if command.cwd else None,
                contain=command.contain,
                recycle=settings.recycle,
                confinement=_confinement(limits.pop(command.prefix, None)),
            )
        )
    if settings.app:
        for i, entry in enumerate(_longest_first(limits.values())):
            found.append(_app_kind(settings, f"limited{i}", entry))
        found.append(_app_kind(settings, "app", None))
    return found


def _app_kind(settings: Settings, name: str, entry: Limits | None) -> Kind:
    """The app's children. Those of a prefix with limits are a pool of their own: a limit can't be taken off again."""
    each_its_own = entry is not None and entry.cpu is not None  # the kernel counts a process's CPU, not a task's
    recycle = 1 if each_its_own else settings.recycle
    forks = recycle == 1 and not (entry and len(entry.uid) > 1)  # a fork has its template's uid
    return Kind(
        name,
        child_command(settings.app),
        settings.processes if entry is None else entry.children or 1,
        env=_WRITES_NO_BYTECODE if entry is not None and entry.file_size is not None else {},
        prefixes=(entry.prefix,) if entry else None,
        recycle=recycle,
        packets=True,
        template=child_command(settings.app, template=True) if forks else (),
        confinement=_confinement(entry),
    )


# Python 3.11 keeps a compiled module that the limit has cut off, and every child after that fails to import it.
_WRITES_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}


def _longest_first(entries: Iterable[Limits]) -> list[Limits]:
    """The first pool that serves a type gets it."""
    return sorted(entries, key=lambda entry: -len(entry.prefix))


def _confinement(entry: Limits | None) -> Confinement:
    if entry is None:
        return Confinement()
    return Confinement(entry.rlimits, entry.uid, entry.network, entry.new_privileges)


def _system_kinds(settings: Settings) -> list[Kind]:
    """Children of ours. Those for functions are never busy sending; only those that send hear the providers' keys."""
    chosen = zip(CHANNEL_TYPES, (settings.providers.email_provider, settings.providers.sms_provider), strict=True)
    channels = _wanted(settings, [name for name, provider in chosen if provider])
    functions = _wanted(settings, FUNCTION_TYPES)
    size = settings.system_processes
    if not size:
        return []
    senders = (size - 1 if functions else size) or 1
    found = []
    if functions:
        found.append(_system_kind("system", size - senders if channels else size, functions, settings, {}))
    if channels:
        told = {"providers": settings.providers.plain()}
        found.append(_system_kind("channels", senders, channels, settings, told))
    return found


def _system_kind(name: str, size: int, types: tuple[str, ...], settings: Settings, told: dict[str, Any]) -> Kind:
    greeting = {"v": 1, "do": "settings", "dsn": settings.database_url or ""} | told
    return Kind(
        name,
        system_command(),
        max(1, size),
        greeting=orjson.dumps(greeting) + b"\n",
        types=types,
        recycle=settings.recycle,
        packets=True,
    )


def _wanted(settings: Settings, types: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in types if not settings.prefixes or name.startswith(settings.prefixes))


def not_ours(stations: Sequence[Station]) -> list[dict[str, Any]]:
    """System types belong to system children alone: no app gets them, also where this worker runs none of them."""
    served = {name for station in stations for name in station.pool.kind.types or ()}
    left = [name for name in FUNCTION_TYPES + CHANNEL_TYPES if name not in served]
    return [{"free": 0, "never": True, "types": left}] if left else []
