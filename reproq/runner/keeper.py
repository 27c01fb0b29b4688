"""The guard, kept alive: starts it (from the main thread), passes orders, starts another when it is gone."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from reproq.config import Settings, child_environ
from reproq.executor.guard_client import Guard, GuardGone, GuardStuck
from reproq.executor.members import Child
from reproq.log import Event, say
from reproq.models.envelope import Outcome
from reproq.runner.loop import Loop

_RESTART_S = 0.2


class Keeper:
    def __init__(self, settings: Settings, loop: Loop) -> None:
        self._environ = child_environ(os.environ, settings)
        self._loop = loop
        self._stopping = False
        self._guard: Guard | None = None
        self.up = False
        self.restarts = 0
        self.told: Callable[[dict[str, Any]], None] = lambda _event: None
        self.after_death: dict[str, Outcome] = {}
        """What to record of a child's task once nothing of it is alive any more."""

    @property
    def guard(self) -> Guard:
        assert self._guard is not None
        return self._guard

    def start(self) -> None:
        self._guard = Guard.start(self._environ)
        self._loop.watch(self._guard.fileno(), self._readable)

    def stop(self) -> None:
        self._stopping = True
        if self._guard is not None:
            self._guard.stop()

    def deadline(self, at: int | None, but: dict[str, int]) -> bool:
        """From any thread. False: the guard hasn't heard, and its old deadline stands."""
        if self._guard is None:
            return False
        try:
            return self._guard.deadline(at, but)
        except GuardGone:
            return False

    def kill(self, child: Child, number: int) -> None:
        try:
            child.pool.kill(child, number)
        except (GuardGone, GuardStuck):
            pass  # the end of the guard is the end of its children

    def sweep(self, child: Child, outcome: Outcome) -> None:
        self.after_death[child.key] = outcome
        try:
            self.guard.sweep(child.key)
        except (GuardGone, GuardStuck):
            pass

    def _readable(self, _event: int) -> None:
        for event in self.guard.receive():
            if event["event"] == "up":
                self.up = True
            elif event["event"] == "gone":
                self._gone(event)
            self.told(event)

    def _gone(self, event: dict[str, Any]) -> None:
        self.up = False
        self._loop.unwatch(self.guard.fileno())
        if not self._stopping:
            self.restarts += 1
            say(
                Event.GUARD_DIED,
                "the guard ended, and all children with it; starting another",
                logging.ERROR,
                signal=event.get("signal"),
                exit_code=event.get("exit_code"),
            )
            self._loop.after(_RESTART_S, self.start)
