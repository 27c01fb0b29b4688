"""A pool of warm children of one kind: started through the guard, one task each at a time.

The pool knows processes and lines; what an answer or a death means for a task is its owner's to say. A slot is free
again only when the guard has told that the child, its group and its leftovers are gone, or when the child answered.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from reproq.executor.guard_client import Guard
from reproq.models.execution import Execution

TAIL_BYTES = 64 * 1024
_CHUNK = 256 * 1024
_STOP = b'{"v":1,"do":"stop"}\n'
_OOM_SCORE = 500  # when memory runs out, a task goes before its worker
_BOOT_PAUSE_S, _MAX_BOOT_PAUSE_S = 0.1, 30.0


@dataclass(frozen=True)
class Kind:
    """How to start the children of a pool, and which types they serve."""

    name: str
    argv: Sequence[str]
    size: int
    env: Mapping[str, str | None] = field(default_factory=dict)
    cwd: str | None = None
    greeting: bytes = b""
    types: tuple[str, ...] | None = None  # exactly these
    prefixes: tuple[str, ...] | None = None  # every type that starts so; neither: all the rest
    recycle: int | None = None
    contain: bool = False

    @property
    def is_system(self) -> bool:
        """Ours, not the user's: it gets the address of the database, and its word is believed."""
        return self.types is not None


class Watcher(Protocol):
    def watch(self, fd: int, handler: Callable[[int], None], *, early: bool = False) -> None: ...
    def watch_write(self, fd: int, handler: Callable[[int], None]) -> None: ...
    def unwatch(self, fd: int) -> None: ...


class Owner(Protocol):
    def child_ready(self, child: Child, hello: bytes) -> None: ...
    def child_answered(self, child: Child, line: bytes) -> None: ...
    def child_garbled(self, child: Child, why: str) -> None: ...
    def child_printed(self, child: Child, data: bytes) -> None: ...
    def child_ended(self, child: Child, exit_: dict[str, Any]) -> None: ...
    def child_not_started(self, child: Child, why: str) -> None: ...


class Child:
    __slots__ = (
        "_tail", "_tail_size", "alarm", "execution", "key", "log", "parts", "pid", "pool", "printed", "ready",
        "retiring", "served", "size", "station", "stdin", "stdout", "unwritten",
    )  # fmt: skip

    def __init__(self, pool: Pool, key: str, stdin: int, stdout: int, log: int) -> None:
        self.pool = pool
        self.key = key
        self.stdin = stdin
        self.stdout = stdout
        self.log = log
        self.pid = 0
        self.ready = False
        self.retiring = False
        self.execution: Execution | None = None
        self.served = 0
        self.parts: list[bytes] = []
        self.size = 0
        self.unwritten = b""
        self.station: Any = pool.station
        self.alarm: Any = None  # its owner's timer for the task's time-out
        self.printed = 0  # bytes of output of the current task
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def keep(self, data: bytes) -> None:
        self.printed += len(data)
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= TAIL_BYTES:
            self._tail_size -= len(self._tail.popleft())

    def tail(self) -> str:
        """The last 64 KiB that the task printed, fit for jsonb."""
        return b"".join(self._tail)[-TAIL_BYTES:].decode(errors="replace").replace("\0", "\\0")

    def forget_output(self) -> None:
        self._tail.clear()
        self._tail_size = self.printed = 0


class Pool:
    def __init__(self, kind: Kind, watcher: Watcher, owner: Owner, max_line: int) -> None:
        self.kind = kind
        self.children: dict[str, Child] = {}
        self.idle: deque[Child] = deque()
        self.ever_ready = False
        self.boot_failures = 0  # in a row
        self.types: dict[str, Any] = {}
        self._watcher = watcher
        self._owner = owner
        self._max_line = max_line
        self._count = 0
        self._not_before = 0.0
        self._guard: Guard | None = None
        self.station: Any = None  # where its owner keeps the tasks that wait for this pool

    @property
    def busy(self) -> list[Child]:
        return [child for child in self.children.values() if child.execution is not None]

    def use(self, guard: Guard) -> None:
        self._guard = guard

    def fill(self, now: float) -> float | None:
        """Starts what is missing; answers when to ask again, if a failed boot makes it wait."""
        missing = self.kind.size - sum(not child.retiring for child in self.children.values())
        if missing <= 0:
            return None
        if now < self._not_before:
            return self._not_before
        for _ in range(1 if self.boot_failures else missing):
            self._start()
        return None

    def hand(self, child: Child, execution: Execution, line: bytes) -> bool:
        """Gives a child its next task. False: the child is gone and has not seen all of the line."""
        child.execution = execution
        if child.printed:
            child.forget_output()
        try:
            written = os.write(child.stdin, line)
        except BlockingIOError:
            written = 0
        except BrokenPipeError:
            child.execution = None
            return False
        if written < len(line):
            child.unwritten = line[written:]
            self._watcher.watch_write(child.stdin, lambda _event: self._write_more(child))
        return True

    def tell(self, child: Child, line: bytes) -> None:
        """A line beside the task's (cancel, stop). Lost if the pipe is full: a kill follows anyway."""
        if not child.unwritten:
            try:
                os.write(child.stdin, line)
            except (BlockingIOError, BrokenPipeError):
                pass

    def release(self, child: Child) -> None:
        """Its task is over: it may have the next one, or has had enough."""
        child.execution = None
        child.served += 1
        if self.kind.recycle is not None and child.served >= self.kind.recycle and not child.retiring:
            self.retire(child)
        elif not child.retiring:
            self.idle.append(child)
        else:
            self.tell(child, _STOP)

    def has_more(self, child: Child) -> bool:
        """Whether this child may have another task after the one that it has answered."""
        return not child.retiring and (self.kind.recycle is None or child.served + 1 < self.kind.recycle)

    def retire(self, child: Child) -> None:
        """No more tasks for this one; it ends by itself when it is idle."""
        child.retiring = True
        if child.execution is None:
            if child in self.idle:
                self.idle.remove(child)
            self.tell(child, _STOP)

    def kill(self, child: Child, signal: int) -> None:
        assert self._guard is not None
        self._guard.kill(child.key, signal)

    def started(self, key: str, pid: int) -> None:
        if key in self.children:
            self.children[key].pid = pid

    def ended(self, key: str, exit_: dict[str, Any], now: float) -> None:
        """The guard says that a child and all that it left behind are gone."""
        child = self.children.pop(key, None)
        if child is None:
            return
        self._read_log(child)
        self._read_answers(child)
        self._close(child)
        if not child.ready:
            self._boot_failed(now)
        self._owner.child_ended(child, exit_)

    def start_failed(self, key: str, why: str, now: float) -> None:
        child = self.children.pop(key)
        self._close(child)
        self._boot_failed(now)
        self._owner.child_not_started(child, why)

    def memory_bytes(self, child: Child) -> int:
        try:
            with open(f"/proc/{child.pid}/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def _start(self) -> None:
        assert self._guard is not None
        self._count += 1
        key = f"{self.kind.name}-{self._count}"
        theirs_in, stdin = os.pipe2(os.O_CLOEXEC)
        stdout, theirs_out = os.pipe2(os.O_CLOEXEC)
        log, theirs_log = os.pipe2(os.O_CLOEXEC)
        child = Child(self, key, stdin, stdout, log)
        for fd in (stdin, stdout, log):
            os.set_blocking(fd, False)
        try:
            kind = self.kind
            self._guard.start_child(
                key, kind.argv, kind.env, [theirs_in, theirs_out, theirs_log], cwd=kind.cwd, oom=_OOM_SCORE
            )
        finally:
            for fd in (theirs_in, theirs_out, theirs_log):
                os.close(fd)
        self.children[key] = child
        self._watcher.watch(log, lambda _event: self._read_log(child), early=True)
        self._watcher.watch(stdout, partial(self._readable, child))
        if self.kind.greeting:
            self.tell(child, self.kind.greeting)

    def _boot_failed(self, now: float) -> None:
        self.boot_failures += 1
        self._not_before = now + min(_MAX_BOOT_PAUSE_S, _BOOT_PAUSE_S * 2 ** min(self.boot_failures, 10))

    def _close(self, child: Child) -> None:
        if child in self.idle:
            self.idle.remove(child)
        for fd in (child.stdin, child.stdout, child.log):
            self._watcher.unwatch(fd)
            os.close(fd)

    def _write_more(self, child: Child) -> None:
        try:
            written = os.write(child.stdin, child.unwritten)
        except BlockingIOError:
            return
        except BrokenPipeError:  # it has died; its end is about to be told
            written = len(child.unwritten)
        child.unwritten = child.unwritten[written:]
        if not child.unwritten:
            self._watcher.unwatch(child.stdin)

    def _read_log(self, child: Child) -> None:
        while True:
            try:
                data = os.read(child.log, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._watcher.unwatch(child.log)
                return
            child.keep(data)
            self._owner.child_printed(child, data)
            if len(data) < 65536:
                return

    def _readable(self, child: Child, _event: int) -> None:
        self._read(child)

    def _read_answers(self, child: Child) -> None:
        while self._read(child):
            pass

    def _read(self, child: Child) -> bool:
        """The hot path: one read, one line, one task."""
        try:
            data = os.read(child.stdout, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._watcher.unwatch(child.stdout)
            return False
        if child.parts or data[-1] != 10:
            child.parts.append(data)
            child.size += len(data)
            if data[-1] != 10:
                if child.size > self._max_line:
                    self._garbled(child, f"its answer is longer than {self._max_line} bytes")
                return True
            data = b"".join(child.parts)
            child.parts.clear()
            child.size = 0
        if data.find(b"\n") != len(data) - 1:
            self._garbled(child, "it answered more than one line")
        elif len(data) > self._max_line:
            self._garbled(child, f"its answer is longer than {self._max_line} bytes")
        elif child.execution is not None:
            self._owner.child_answered(child, data)
        elif not child.ready:
            self._hello(child, data)
        else:
            self._garbled(child, "it answered without being asked")
        return True

    def _hello(self, child: Child, line: bytes) -> None:
        child.ready = self.ever_ready = True
        self.boot_failures = 0
        child.forget_output()
        self._owner.child_ready(child, line)
        if not child.retiring:
            self.idle.append(child)

    def _garbled(self, child: Child, why: str) -> None:
        """Nothing that it says can be trusted any more."""
        child.parts.clear()
        child.size = 0
        child.retiring = True
        if child in self.idle:
            self.idle.remove(child)
        self._owner.child_garbled(child, why)
