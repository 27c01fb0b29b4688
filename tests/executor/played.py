"""A child that the test plays, for a real pool: it reads tasks from its socket and says what it likes."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import Any, cast

from reproq.executor.hearing import Listener
from reproq.executor.members import Kind
from reproq.executor.order import Orders
from reproq.executor.pool import Owner, Pool
from reproq.models.execution import Execution

READY = b'{"v":1,"types":{}}\n'


class Played:
    """A pool of one child."""

    def __init__(self, owner: Owner, listener: Listener, max_line: int = 1 << 20) -> None:
        ignored = SimpleNamespace(watch=lambda *_a, **_k: None, watch_write=lambda *_a: None, unwatch=lambda _fd: None)
        kind = Kind("app", [], 1, packets=True)
        self.pool = Pool(kind, cast(Any, ignored), owner, listener, max_line)
        self.pool.use(cast(Any, SimpleNamespace(start_child=self._start)))

    def boots(self) -> Played:
        self.pool.fill(0.0)
        (self.child,) = self.pool.children.values()
        self.says(READY)
        return self

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
        self.pool._hearing.readable(self.child, 0)

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


def execution(task_id: int) -> Execution:
    return Execution(task_id, 1, "t", "default", "{}", 1, 3, None, None)


def order(one: Execution) -> bytes:
    return Orders("worker").run(one)


def answer(task_id: int) -> bytes:
    return b'{"v":1,"id":%d,"claim_no":1,"success":true}\n' % task_id
