"""What a pool consists of: a kind of children, and the children."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reproq.models.execution import Execution

if TYPE_CHECKING:
    from reproq.executor.pool import Pool

TAIL_BYTES = 64 * 1024
_HEAD = 96
PACKET = 64 * 1024


@dataclass(frozen=True)
class Confinement:
    """What a child may use, and as whom it runs. Nobody gets new privileges by running a program, unless told so."""

    limits: Mapping[str, int] = field(default_factory=dict)
    uids: tuple[int, ...] = ()  # none: the worker's own; several: each child has one of its own
    network: bool = True
    new_privileges: bool = False


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
    packets: bool = False  # our Python child: lines may wait in its socket
    template: Sequence[str] = ()  # how to start one that forks the others
    confinement: Confinement = field(default_factory=Confinement)

    @property
    def is_system(self) -> bool:
        """Ours, not the user's: it gets the address of the database, and its word is believed."""
        return self.types is not None


class SocketBack:
    """A second handle on a child's end of its socket: what the child hasn't read, we can, while it runs."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def unread(self, ended: bool) -> list[bytes]:
        found: list[bytes] = []
        try:
            while data := self._end.recv(PACKET, socket.MSG_DONTWAIT):
                found.append(data)
        except BlockingIOError:
            pass
        return found

    def head(self) -> bytes:
        """How the first line begins that the child hasn't read; empty: it has read all."""
        try:
            return self._end.recv(_HEAD, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self._end.close()


class PipeBack:
    """The same for a pipe. It keeps no lines apart, so it is asked only when the child has ended."""

    def __init__(self, end: int) -> None:
        self._end = end

    def unread(self, ended: bool) -> list[bytes]:
        if not ended:
            return []
        os.set_blocking(self._end, False)
        try:
            return [os.read(self._end, PACKET)]
        except BlockingIOError:
            return []

    def head(self) -> bytes:
        return b""

    def close(self) -> None:
        os.close(self._end)


class Child:
    __slots__ = (
        "_tail", "_tail_size", "alarm", "back", "before", "boot_failed", "born", "cannot_fork", "garbled", "is_long",
        "key", "lines", "log", "noisy", "parts", "pid", "pool", "printed", "ready", "ready_at", "retiring", "served",
        "shallow", "size", "station", "stdin", "stdout", "uid", "unwritten",
    )  # fmt: skip

    def __init__(self, pool: Pool, key: str, stdin: int, stdout: int, log: int, back: SocketBack | PipeBack) -> None:
        self.pool = pool
        self.key = key
        self.stdin = stdin
        self.stdout = stdout
        self.log = log
        self.back = back
        self.pid = 0
        self.uid: int | None = None  # where it isn't the worker's
        self.born = time.monotonic()
        self.ready = False
        self.ready_at = 0.0
        self.retiring = False
        self.garbled = False
        self.noisy = False  # it prints, though its task is over
        self.boot_failed = False
        self.cannot_fork: str | None = None  # a template's reason not to be one
        self.before: tuple[int, int] | None = None  # id and claim_no of the task before the one that runs
        self.lines: deque[Execution] = deque()  # the first is running, the others wait in its socket
        self.is_long = False  # its task came in several packets
        self.shallow = False  # its task takes long: nothing may wait behind it
        self.served = 0
        self.parts: list[bytes] = []
        self.size = 0
        self.unwritten = b""
        self.station: Any = pool.station
        self.alarm: Any = None  # its owner's timer for the task's time-out
        self.printed = 0  # bytes of output of the current task
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    @property
    def execution(self) -> Execution | None:
        return self.lines[0] if self.lines else None

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
