"""Whom a time-out or a cancel ends: the task that it is about, and no other."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reproq.executor.members import Child
from reproq.models.execution import End, Execution
from reproq.runner.stops import Stops


class Scene:
    """A child with a task that has begun; what `hear` and `take_back` find is the test's to say."""

    def __init__(self) -> None:
        self.killed: list[int] = []
        self.retired: list[Child] = []
        self.timers: list[Callable[[], None]] = []
        self.heard: Callable[[], None] = lambda: None
        self.taken: list[Execution] = []
        self.has_begun = True
        pool = SimpleNamespace(station=None, hear=lambda _child: self.heard(), tell=lambda _child, _line: None)
        pool.retire = self.retired.append
        pool.has_begun = lambda _child: self.has_begun
        self.child = Child(cast(Any, pool), "app-1", 0, 0, 0, cast(Any, None))
        self.first, self.second = execution(1), execution(2)
        self.child.lines.append(self.first)
        self.stops = Stops(
            cast(Any, SimpleNamespace(at=self._at, after=self._at)),
            cast(Any, SimpleNamespace(kill=lambda _child, number: self.killed.append(number))),
            cast(Any, SimpleNamespace(holds=lambda _execution: True)),
            1.0,
            lambda execution: self.child if execution in self.child.lines else None,
            self._take_back,
        )

    def _at(self, _when: float, call: Callable[[], None]) -> SimpleNamespace:
        self.timers.append(call)
        return SimpleNamespace(at=0.0)

    def _take_back(self, _child: Child) -> list[Execution]:
        for one in self.taken:
            self.child.lines.remove(one)
            one.child_key = None
        return self.taken

    def ring(self) -> None:
        self.timers.pop(0)()

    def goes_on(self) -> None:
        """The answer to its first task was on its way, and it has begun the next one."""
        self.child.lines.popleft()
        self.child.lines.append(self.second)


def execution(task_id: int) -> Execution:
    made = Execution(task_id, 1, "t", "default", "{}", 1, 1, 0.001, None)
    made.handed_at = time.monotonic() - 1
    made.child_key = "app-1"
    return made


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_long_line_that_its_child_hasnt_read_whole_isnt_timed_out_but_its_child_replaced(scene: Scene) -> None:
    scene.has_begun = False
    scene.stops.watch(scene.child, scene.first)
    scene.ring()
    assert (scene.first.end, scene.retired, scene.killed) == (None, [scene.child], [signal.SIGKILL])


def test_a_task_that_takes_too_long_is_timed_out_and_its_child_killed(scene: Scene) -> None:
    scene.stops.watch(scene.child, scene.first)
    scene.ring()
    assert (scene.first.end, scene.killed) == (End.TIMED_OUT, [signal.SIGKILL])


def test_a_time_out_spares_the_task_that_has_begun_since_the_late_one_answered(scene: Scene) -> None:
    scene.heard = scene.goes_on
    scene.stops.watch(scene.child, scene.first)
    scene.ring()
    assert (scene.first.end, scene.second.end, scene.killed) == (None, None, [])


def test_a_child_that_never_took_its_task_is_replaced_and_the_task_not_blamed(scene: Scene) -> None:
    scene.taken = [scene.first]
    scene.stops.watch(scene.child, scene.first)
    scene.ring()
    assert (scene.first.end, scene.killed, scene.retired) == (None, [signal.SIGKILL], [scene.child])


def test_the_signals_of_a_cancel_spare_the_task_that_has_begun_since_then(scene: Scene) -> None:
    scene.stops.cancelled(scene.first)
    scene.heard = scene.goes_on
    scene.ring()
    scene.ring()
    assert (scene.first.end, scene.killed) == (End.CANCELLED, [])
