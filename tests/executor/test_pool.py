"""Whose answer a line is, when the lines of several tasks come at once."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproq.executor.members import Child, Kind
from reproq.executor.order import Orders
from reproq.executor.pool import Pool
from reproq.models.execution import Execution

READY = b'{"v":1,"types":{}}\n'


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
        child.pool.answered(child)
        while self.ready and child.pool.hand(child, self.ready[0], order(self.ready[0])):
            self.ready.popleft()

    def child_garbled(self, child: Child, why: str) -> None:
        self.garbled.append(why)
        self.gets_back(child.pool.take_back(child))

    def child_ended(self, _child: Child, _exit: dict[str, Any], unread: list[Execution]) -> None:
        self.gets_back(unread)

    def gets_back(self, unread: list[Execution]) -> None:
        self.ready.extendleft(reversed(unread))


class Played:
    """A pool of one child that the test plays: it reads tasks from `source` and says what it likes into `sink`."""

    def __init__(self) -> None:
        self.owner = Owner()
        ignored = SimpleNamespace(watch=lambda *_a, **_k: None, watch_write=lambda *_a: None, unwatch=lambda _fd: None)
        kind = Kind("app", [], 1, packets=True)
        self.pool = Pool(kind, cast(Any, ignored), cast(Any, self.owner), 1 << 20)
        self.pool.use(cast(Any, SimpleNamespace(start_child=self._start)))
        self.pool.fill(0.0)
        (self.child,) = self.pool.children.values()
        self.says(READY)

    def _start(self, _key: str, _argv: Any, _env: Any, fds: list[int], **_options: Any) -> None:
        self.source, self.sink, self.log = map(os.dup, fds)

    def has(self, *task_ids: int) -> None:
        for task_id in task_ids:
            assert self.pool.hand(self.child, execution(task_id), order(execution(task_id)))

    def begins(self, count: int) -> list[int]:
        return [json.loads(os.read(self.source, 1 << 16))["id"] for _ in range(count)]

    def writes(self, *lines: bytes) -> None:
        os.write(self.sink, b"".join(lines))

    def is_read(self) -> None:
        self.pool._readable(self.child, 0)

    def says(self, *lines: bytes) -> None:
        self.writes(*lines)
        self.is_read()

    def ends_with(self, *lines: bytes) -> None:
        self.writes(*lines)
        self.ends()

    def ends(self) -> None:
        for fd in (self.source, self.sink, self.log):
            os.close(fd)
        self.pool.ended(self.child.key, {}, 0.0)


@contextmanager
def playing() -> Iterator[Played]:
    played = Played()
    try:
        yield played
    finally:
        if played.pool.children:
            played.ends()


@pytest.fixture
def played() -> Iterator[Played]:
    with playing() as played:
        yield played


def execution(task_id: int) -> Execution:
    return Execution(task_id, 1, "t", "default", "{}", 1, 3, None, None)


def order(one: Execution) -> bytes:
    return Orders("worker").run(one)


def answer(task_id: int) -> bytes:
    return b'{"v":1,"id":%d}\n' % task_id


def test_each_of_several_answers_belongs_to_the_next_task_that_the_child_has_begun(played: Played) -> None:
    played.has(1, 2, 3)
    played.begins(3)
    played.says(answer(1), answer(2))
    assert played.owner.answered == [(1, answer(1).rstrip()), (2, answer(2).rstrip())]
    assert (played.owner.garbled, [one.id for one in played.child.lines]) == ([], [3])


def test_no_answer_counts_for_a_task_that_waits_in_the_socket(played: Played) -> None:
    played.has(1, 2, 3)
    played.begins(2)
    played.says(answer(1), answer(2), answer(3))
    assert [task_id for task_id, _ in played.owner.answered] == [1]
    assert played.owner.garbled == ["it answered a task that it hadn't begun"]


@pytest.mark.parametrize("dies", [False, True], ids=["lives on", "dies"])
def test_no_answer_counts_for_a_task_that_the_child_gets_while_its_answers_are_read(played: Played, dies: bool) -> None:
    played.has(1, 2)
    played.begins(2)
    played.owner.ready.extend([execution(3), execution(4)])
    speak = played.ends_with if dies else played.says
    speak(answer(1), answer(2), answer(3), answer(4))
    assert [task_id for task_id, _ in played.owner.answered] == [1]
    assert played.owner.garbled == ["it answered a task that it hadn't begun"]


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
    with playing() as played:
        begun, running = play(played, steps)
        lied = lies and running is not None
        if lied:
            played.writes(*(answer(begun[-1] + n) for n in range(3)))

    owner = played.owner
    answered = [task_id for task_id, _ in owner.answered]
    died = [one.id for one in played.child.lines]
    assert answered + died == begun
    assert sorted([*begun, *(one.id for one in owner.ready)]) == list(_TASKS)
    assert lied or (owner.garbled, died) == ([], [] if running is None else [running])


def play(played: Played, steps: list[str]) -> tuple[list[int], int | None]:
    """Answers which tasks the child began, and which it was running in the end."""
    owner, child = played.owner, played.child
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
