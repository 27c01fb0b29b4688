"""Whose answer a line is, when the lines of several tasks come at once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

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

    def child_garbled(self, _child: Child, why: str) -> None:
        self.garbled.append(why)

    def child_ended(self, _child: Child, _exit: dict[str, Any], unread: list[Execution]) -> None:
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

    def begins(self, count: int) -> None:
        for _ in range(count):
            os.read(self.source, 1 << 16)

    def says(self, *lines: bytes) -> None:
        os.write(self.sink, b"".join(lines))
        self.pool._readable(self.child, 0)

    def ends_with(self, *lines: bytes) -> None:
        os.write(self.sink, b"".join(lines))
        self.ends()

    def ends(self) -> None:
        for fd in (self.source, self.sink, self.log):
            os.close(fd)
        self.pool.ended(self.child.key, {}, 0.0)


@pytest.fixture
def played() -> Iterator[Played]:
    played = Played()
    yield played
    if played.pool.children:
        played.ends()


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
