"""What happens to the tasks that wait behind others in a child's socket."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reproq.executor.members import Child
from reproq.models.execution import Execution
from reproq.runner.books import Books
from reproq.runner.crew import Station
from reproq.runner.handout import Handout


def execution(task_id: int, *, begun: bool = False) -> Execution:
    made = Execution(task_id, 1, "t", "default", "{}", 1, 3, None, None)
    made.begun = begun
    made.handed_at = 1.0 if begun else 0.0
    return made


def child_with(*lines: Execution, unread: list[Execution]) -> tuple[Child, deque[Execution]]:
    ready: deque[Execution] = deque()

    def take_back(child: Any) -> list[Execution]:
        for one in unread:
            child.lines.remove(one)
        return unread

    pool = SimpleNamespace(station=SimpleNamespace(ready=ready), take_back=take_back, release=lambda _child: None)
    child = Child(cast(Any, pool), "app-1", 0, 0, 0, cast(Any, None))
    child.lines.extend(lines)
    return child, ready


def deep_child(*, idle: int = 0, is_steady: bool = True, lines: int = 2) -> tuple[Handout, Child, deque[Execution]]:
    """Lines wait behind a task that has begun at 1.0."""
    waiting = [execution(n) for n in range(2, lines + 1)]
    child, ready = child_with(execution(1, begun=True), *waiting, unread=waiting)
    child.pool.idle = deque([cast(Child, None)] * idle)
    child.pool.children = {child.key: child}
    station = SimpleNamespace(
        ready=ready, unconfirmed=(), confirming=0, pool=child.pool, is_short=not is_steady, is_steady=is_steady,
        long_s=0.015, least_s=0.005,
    )  # fmt: skip
    child.pool.station = child.station = station
    made = handout(cast(Station, station))
    made.deep.add(child)
    return made, child, ready


def handout(*stations: Station) -> Handout:
    return Handout(cast(Books, SimpleNamespace()), list(stations), "worker/1/boot", 1 << 20)


def test_what_a_child_has_not_begun_waits_in_front_for_another_in_its_old_order() -> None:
    running, second, third = execution(1, begun=True), execution(2), execution(3)
    child, ready = child_with(running, second, third, unread=[second, third])
    ready.append(execution(4))
    assert handout().take_back(child) == [second, third]
    assert [one.id for one in ready] == [2, 3, 4]
    assert list(child.lines) == [running]
    assert child.shallow


def test_a_task_that_the_child_took_while_others_were_taken_back_has_begun_now() -> None:
    """Child and runner read the same socket: what is left need not be what was first in line."""
    first, second = execution(1, begun=True), execution(2)
    child, ready = child_with(first, second, unread=[first])
    handout().take_back(child)
    assert [one.id for one in ready] == [1]
    assert not first.begun
    assert second.begun
    assert second.handed_at > 1.0


def test_what_waits_behind_a_task_that_takes_long_is_taken_back_when_that_is_known() -> None:
    made, child, ready = deep_child()
    made.look_after_deep(1.0)
    made._long_at = 0.0
    assert made.look_after_deep(1.01) == pytest.approx(0.005)
    assert list(child.lines) and not ready
    assert made.look_after_deep(1.016) == 0
    assert [one.id for one in ready] == [2]
    assert not made.deep


def test_what_waits_behind_a_task_of_milliseconds_goes_to_a_child_that_has_nothing_to_do() -> None:
    made, _child, ready = deep_child(idle=1)
    assert made.look_after_deep(1.001) == 0
    assert [one.id for one in ready] == [2]


def test_no_more_children_are_asked_for_their_lines_than_have_nothing_to_do() -> None:
    made, child, ready = deep_child(idle=1)
    second, _ready = child_with(execution(8, begun=True), behind := execution(9), unread=[behind])
    second.station = child.station
    made.deep.add(second)
    made.look_after_deep(1.001)
    assert [one.id for one in ready] in ([2], [9])


def test_among_short_tasks_an_idle_child_is_no_reason_to_take_any_back() -> None:
    made, _child, ready = deep_child(idle=1, is_steady=False)
    made.look_after_deep(1.001)
    assert not ready


def test_what_is_ready_goes_to_a_child_with_nothing_to_do_before_it_waits_behind_another() -> None:
    made, child, ready = deep_child(idle=1)
    ready.append(execution(9))
    made.goes_on(child, child.lines[0])
    assert [one.id for one in ready] == [9]


def test_the_runner_naps_while_every_child_has_lines_for_longer() -> None:
    made, child, _ready = deep_child(lines=5)
    assert made.nap_s() == pytest.approx(0.01)
    child.lines.pop()
    assert made.nap_s() == pytest.approx(0.0075)


@pytest.mark.parametrize(
    "why", ["a last line", "an idle child", "tasks too short", "a start to be committed", "nothing runs"]
)
def test_the_runner_stays_awake_when_somebody_may_need_it(why: str) -> None:
    made, child, _ready = deep_child(
        lines=1 if why == "a last line" else 5, idle=why == "an idle child", is_steady=why != "tasks too short"
    )
    if why == "a start to be committed":
        child.station.confirming = 1
    if why == "nothing runs":
        child.lines.clear()
    assert made.nap_s() == 0


def test_tasks_wait_while_a_pool_has_no_children_at_all() -> None:
    ready = deque([execution(1)])
    pool = SimpleNamespace(idle=deque(), children={})
    station = SimpleNamespace(ready=ready, pool=pool, depth=2, unconfirmed=())
    books = SimpleNamespace(finishes=SimpleNamespace(weight=0))
    Handout(cast(Books, books), [], "worker/1/boot", 1 << 20).hand_out(cast(Station, station))
    assert len(ready) == 1
