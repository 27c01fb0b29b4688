"""The child's end of the wire: takes the protocol off 0 and 1, so that nothing a task prints can touch it."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from _thread import allocate_lock
from fcntl import F_DUPFD_CLOEXEC, fcntl, ioctl
from termios import FIONREAD

from reproq.executor.envelopes import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Order = dict[str, Any]

_HIGH = 100  # out of the way of code that counts on low numbers
_DRAIN_S = 1.0
_CHUNK = 1 << 16
_EMPTY = bytes(4)
_RUN = b'{"v":1,"do":"run"'


class Wire:
    def __init__(self, source: int, sink: int, log: int) -> None:
        self.source = source
        self.sink = sink
        self.log = log
        self.pending: list[Order] = []
        self.ended = False
        self._parts: list[bytes] = []
        self._cancelled: set[tuple[int, int]] = set()
        self._current: tuple[int, int] | None = None  # the task that runs: only then may another thread read
        self._lock = allocate_lock()
        self._waiting = bytearray(4)
        self._log_is_pipe = stat.S_ISFIFO(os.fstat(log).st_mode)
        self._peek = _peeker(source)

    @classmethod
    def take_over(cls) -> Wire:
        """Before any of the user's code: 0 becomes /dev/null, 1 and 2 the log."""
        source, sink, log = (fcntl(fd, F_DUPFD_CLOEXEC, _HIGH) for fd in (0, 1, 2))
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(2, 1)
        os.close(null)
        wire = cls(source, sink, log)
        # A fork in a task that returns instead of exiting would come back here: it must neither answer nor read.
        os.register_at_fork(after_in_child=wire._disconnect)
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure:  # by line: what was printed before a crash is not lost
                reconfigure(line_buffering=True, errors="backslashreplace")
        return wire

    def adopt(self, source: int, sink: int, log: int) -> None:
        """In the fork of a template: a wire of its own, in the place of the one that it was cut off from."""
        for mine, given in ((self.source, source), (self.sink, sink), (self.log, log)):
            os.dup2(given, mine, inheritable=False)
        for mine in (1, 2):
            os.dup2(log, mine)
        for given in (source, sink, log):
            os.close(given)
        self._parts.clear()
        self.ended = False
        self._log_is_pipe = stat.S_ISFIFO(os.fstat(self.log).st_mode)

    def goes_on(self) -> bool:
        """What has come is read; a template gets nothing but its end."""
        self._read()
        return not self.ended

    def _disconnect(self) -> None:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (self.source, self.sink, self.log):
            os.dup2(null, fd, inheritable=False)
        os.close(null)
        self.pending.clear()
        self.ended = True
        self._lock = allocate_lock()  # a thread that is not here may have held the old one
        self._log_is_pipe = False

    def next(self) -> Order | None:
        """The next task's order; None: stop. Waits."""
        pending = self.pending
        with self._lock:
            self._current = None
        while not pending:
            if self.ended:
                return None
            self._read()
        order = pending.pop(0)
        self._current = (order["id"], order["claim_no"])
        return order

    def _read(self) -> None:
        data = os.read(self.source, _CHUNK)
        if not data:
            self.ended = True
            return
        if data[-1] == 10 and not self._parts:
            lines = data.split(b"\n")
        elif b"\n" in data:
            lines = (b"".join(self._parts) + data).split(b"\n")
            self._parts = [lines[-1]] if lines[-1] else []
        else:
            self._parts.append(data)
            return
        lines.pop()
        for line in lines:
            self._accept(parse(line))

    def _accept(self, order: Order) -> None:
        do = order["do"]
        if self.ended:
            return
        if do == "run":
            self.pending.append(order)
        elif do == "cancel":
            self._cancelled.add((order["id"], order["claim_no"]))
        elif do == "stop":
            self.ended = True

    def is_cancelled(self, order: Order) -> bool:
        """Reads what has come meanwhile, but not what is to be run next: that must stay where the runner can take it
        back, as long as it has not begun. From any thread, also one that its task has left behind: that one reads
        nothing any more, and no read ever waits."""
        task = (order["id"], order["claim_no"])
        with self._lock:
            while task == self._current and not self.ended and self._has_word():
                self._read()
            return task in self._cancelled

    def _has_word(self) -> bool:
        """Whether something has come that isn't the next task. What the runner takes back may vanish while we look."""
        if not _readable(self.source):
            return False
        if self._peek is None:
            return True
        head = self._peek()
        return bool(head) and not head.startswith(_RUN)

    def forget_cancels(self) -> None:
        """Those of the tasks that are over."""
        if self._cancelled:
            self._cancelled &= {(order["id"], order["claim_no"]) for order in self.pending}

    def send(self, line: bytes) -> None:
        written = os.write(self.sink, line)
        while written < len(line):
            line = line[written:]
            written = os.write(self.sink, line)

    def wait_until_log_is_read(self) -> bool:
        """Before the answer: until then all output is this task's, and the runner has it when the answer comes.
        False: in vain."""
        if self._log_is_pipe:
            ioctl(self.log, FIONREAD, self._waiting)
            if self._waiting != _EMPTY:
                return self._wait_for_reader()
        return True

    def _wait_for_reader(self) -> bool:
        """A pipe can't be polled for having been read. Bounded: a leftover process may write without end."""
        pause, until = 0.00005, time.monotonic() + _DRAIN_S
        while self._waiting != _EMPTY and time.monotonic() < until:
            time.sleep(pause)
            pause = min(pause * 2, 0.005)
            ioctl(self.log, FIONREAD, self._waiting)
        return self._waiting == _EMPTY


def _peeker(source: int) -> Callable[[], bytes] | None:
    """How to see the beginning of the next line without taking it. On a pipe that can't be done, and isn't needed."""
    if not stat.S_ISSOCK(os.fstat(source).st_mode):
        return None

    def peek() -> bytes:
        import _socket  # `socket` would import selectors and enum: 5 ms

        sock = _socket.socket(fileno=source)
        try:
            return sock.recv(len(_RUN), _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""
        finally:
            sock.detach()

    return peek


def _readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
