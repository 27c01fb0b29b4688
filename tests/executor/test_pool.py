"""Whose answer a line is, when the lines of several tasks come at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproq.executor.members import Child
from reproq.models.execution import Execution
from tests.executor.played import Played, answer, execution, order


class Owner:
    """Gives the child what is ready as soon as it has answered, as the runner does."""

    def __init__(self) -> None:
        self.ready: deque[Execution] = deque()
        self.answered: list[tuple[int, bytes]] = []
        self.garbled: list[str] = []

    def child_ready(self, _child: Child, _hello: bytes) -> bool:
        return True

    def child_answered(self, child: Child, line: bytes) -> None:
        assert child.execution is not None
        self.answered.append((child.execution.id, line))
        child.before = child.execution.id, 1
        child.pool.answered(child)
        while self.ready and child.pool.hand(child, self.ready[0], order(self.ready[0])):
            self.ready.popleft()

    def child_repeats(self, _child: Child) -> None: ...

    def child_is_mute(self, _child: Child) -> None: ...

    def child_garbled(self, child: Child, why: str, _guilty: Execution | None) -> None:
        self.garbled.append(why)
        self.gets_back(child.pool.take_back(child))
        child.garbled = True

    def child_printed(self, _child: Child, _data: bytes) -> None: ...

    def child_not_started(self, _child: Child, _why: str) -> None: ...

    def child_ended(self, _child: Child, _exit: dict[str, Any], unread: list[Execution]) -> None:
        self.gets_back(unread)

    def gets_back(self, unread: list[Execution]) -> None:
        self.ready.extendleft(reversed(unread))


@contextmanager
def playing() -> Iterator[tuple[Owner, Played]]:
    owner = Owner()
    played = Played(owner, owner).boots()
    try:
        yield owner, played
    finally:
        if played.pool.children:
            played.ends()


@pytest.fixture
def scene() -> Iterator[tuple[Owner, Played]]:
    with playing() as scene:
        yield scene


def test_each_of_several_answers_belongs_to_the_next_task_that_the_child_has_begun(scene: tuple[Owner, Played]) -> None:
    owner, played = scene
    played.has(1, 2, 3)
    played.begins(3)
    played.says(answer(1), answer(2))
    assert owner.answered == [(1, answer(1).rstrip()), (2, answer(2).rstrip())]
    assert (owner.garbled, [one.id for one in played.child.lines]) == ([], [3])


def test_no_answer_counts_for_a_task_that_waits_in_the_socket(scene: tuple[Owner, Played]) -> None:
    owner, played = scene
    played.has(1, 2, 3)
    played.begins(2)
    played.says(answer(1), answer(2), answer(3))
    assert [task_id for task_id, _ in owner.answered] == [1]
    assert owner.garbled == ["it said more than it was asked"]


@pytest.mark.parametrize("dies", [False, True], ids=["lives on", "dies"])
def test_no_answer_counts_for_a_task_that_the_child_gets_while_its_answers_are_read(
    scene: tuple[Owner, Played], dies: bool
) -> None:
    owner, played = scene
    played.has(1, 2)
    played.begins(2)
    owner.ready.extend([execution(3), execution(4)])
    speak = played.ends_with if dies else played.says
    speak(answer(1), answer(2), answer(3), answer(4))
    assert [task_id for task_id, _ in owner.answered] == [1]
    assert owner.garbled == ["it said more than it was asked"]


_TASKS = range(1, 30)
_STEPS = st.lists(
    st.sampled_from(["hand", "hand", "begin", "begin", "answer", "answer", "read", "take back"]),
    min_size=20,
    max_size=120,
)


@settings(max_examples=400, deadline=None)
@given(steps=_STEPS, lies=st.booleans())
def test_in_whatever_order_lines_go_and_come_back_no_task_is_lost_and_none_answered_that_had_not_begun(
    steps: list[str], lies: bool
) -> None:
    with playing() as (owner, played):
        begun, running = play(owner, played, steps)
        lied = lies and running is not None
        if lied:
            played.writes(*(answer(begun[-1] + n) for n in range(3)))

    answered = [task_id for task_id, _ in owner.answered]
    died = [one.id for one in played.child.lines]
    assert answered + died == begun
    assert sorted([*begun, *(one.id for one in owner.ready)]) == list(_TASKS)
    assert lied or (owner.garbled, died) == ([], [] if running is None else [running])


def play(owner: Owner, played: Played, steps: list[str]) -> tuple[list[int], int | None]:
    """Answers which tasks the child began, and which it was running in the end."""
    child = played.child
    owner.ready.extend(map(execution, _TASKS))
    begun: list[int] = []
    running = None
    for step in steps:
        if step == "hand" and owner.ready and played.pool.hand(child, owner.ready[0], order(owner.ready[0])):
            owner.ready.popleft()
        elif step == "begin" and running is None and child.back.head():
            (running,) = played.begins(1)
            begun.append(running)
        elif step == "answer" and running is not None:
            played.writes(answer(running))
            running = None
        elif step == "read":
            played.is_read()
        elif step == "take back":
            owner.gets_back(played.pool.take_back(child))
    return begun, running
