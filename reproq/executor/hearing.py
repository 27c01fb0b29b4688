"""What children say: read from their pipes, cut into lines, and known for whose line it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from reproq.executor.members import PACKET, Child
from reproq.executor.order import run_line_id
from reproq.models.envelope import task_of
from reproq.models.execution import Execution

if TYPE_CHECKING:
    from reproq.executor.pool import Pool

# A larger buffer would be mapped and unmapped anew for each read: 20 µs instead of 1.
_CHUNK = 64 * 1024
_LONG_CHUNK = 1024 * 1024  # of a line that is longer than that
_LOG_CHUNKS = 2  # a pipe holds one


class Listener(Protocol):
    """Who knows what a line means."""

    def child_answered(self, child: Child, line: bytes) -> None: ...
    def child_repeats(self, child: Child) -> None: ...
    def child_garbled(self, child: Child, why: str, guilty: Execution | None) -> None: ...
    def child_printed(self, child: Child, data: bytes) -> None: ...
    def child_is_mute(self, child: Child) -> None: ...


class Hearing:
    def __init__(self, pool: Pool, listener: Listener, unwatch: Callable[[int], None], max_line: int) -> None:
        self._pool = pool
        self._packets = pool.kind.packets
        self._listener = listener
        self._unwatch = unwatch
        self._max_line = max_line

    def hear(self, child: Child) -> None:
        self.log_readable(child, 0)  # of our own children it reads the answers too
        if not self._packets:
            self._read(child)

    def log_readable(self, child: Child, _event: int) -> None:
        """Whose output is it? Our own child answers only when its log has been read: answers that have come are older
        than what is in the log. Others answer when they like, but have one task, and the log is read first."""
        if self._packets:
            self._read(child)
        self._read_log(child)

    def _read_log(self, child: Child) -> None:
        """What was in the pipe, and no more: a leftover process may fill it as fast as we read."""
        for _ in range(_LOG_CHUNKS):
            try:
                data = os.read(child.log, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._unwatch(child.log)
                return
            child.keep(data)
            self._listener.child_printed(child, data)
            if len(data) < PACKET:
                return

    def readable(self, child: Child, _event: int) -> None:
        self._read(child)

    def hear_last_words(self, child: Child) -> None:
        """The last words of a child that has ended."""
        if not self._packets:
            self._read_log(child)
        while self._read(child):
            pass
        self._read_log(child)

    def _read(self, child: Child) -> bool:
        """The hot path: one read, an answer or several."""
        try:
            data = os.read(child.stdout, _LONG_CHUNK if child.parts else _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._unwatch(child.stdout)
            self._listener.child_is_mute(child)
            return False
        if child.garbled:
            return True
        if child.parts or data[-1] != 10:
            data = self._whole_lines(child, data)
            if not data:
                return True
        lines = [data] if data.find(b"\n") == len(data) - 1 else data.split(b"\n")[:-1]
        if not child.ready:
            self._hello(child, lines)
            return True
        begun = self._begun_of(child, len(lines))
        if begun < len(lines):
            self._surplus(child, lines, begun)
        else:
            for line in lines:
                if not child.garbled:
                    self._line(child, line)
        return True

    def _begun_of(self, child: Child, count: int) -> int:
        """How many of the first `count` tasks it has begun: it reads a task when it begins it, so what answers one that
        it hasn't read isn't that task's answer, nor what answers one that it gets while we go through these lines."""
        if child.unwritten:
            return min(count, len(child.lines) - 1)
        if self._packets and child.lines and (head := child.back.head()):
            unread = run_line_id(head)
            for n, execution in enumerate(islice(child.lines, count)):
                if execution.id == unread:
                    return n
        return min(count, len(child.lines))

    def _whole_lines(self, child: Child, data: bytes) -> bytes:
        child.parts.append(data)
        child.size += len(data)
        if b"\n" not in data:
            if child.ready and not child.lines:
                self._listener.child_garbled(child, "it wrote without being asked", None)
            elif child.size > self._max_line:
                self._too_long(child)
            if child.size > self._max_line + 2 * _LONG_CHUNK:
                child.parts.clear()
                child.size = 0
            return b""
        lines, _, rest = b"".join(child.parts).rpartition(b"\n")
        child.parts = [rest] if rest else []
        child.size = len(rest)
        return lines + b"\n"

    def _surplus(self, child: Child, lines: list[bytes], begun: int) -> None:
        """More lines than tasks that it has begun. It answers before it begins the next, so every line up to the last
        answer of a task was said by that task, or by what an earlier one left behind."""
        ends = {task: n for n, line in enumerate(lines) if (task := task_of(line)) is not None}
        last = child.served + begun - 1
        n = 0
        while n < len(lines) and not child.garbled:
            said_before = ends.get(child.before, -1) if child.before else -1
            if said_before >= n:
                self._listener.child_repeats(child)
                n = said_before + 1
                continue
            running = child.execution
            if child.served > last or running is None:
                hasty = running if running is not None and child.unwritten and not self._packets else None
                self._listener.child_garbled(child, "it answered before it had read its task, or without one", hasty)
                return
            own = ends.get((running.id, running.claim_no), -1)
            if own > n or (child.served == last and n + 1 < len(lines)):
                self._listener.child_garbled(child, "it said more than it was asked", running)
                n = max(n, own)
            if not child.garbled:
                self._line(child, lines[n])
                n += 1

    def _line(self, child: Child, line: bytes) -> None:
        if len(line) > self._max_line:
            self._too_long(child)
        if not child.garbled:
            self._listener.child_answered(child, line)

    def _hello(self, child: Child, lines: list[bytes]) -> None:
        if len(lines) > 1:
            self._listener.child_garbled(child, "it wrote without being asked", None)
        elif not self._pool.is_up(child, lines[0]):
            self._listener.child_garbled(child, "its first line is not a ready line", None)

    def _too_long(self, child: Child) -> None:
        self._listener.child_garbled(child, f"its answer is longer than {self._max_line} bytes", child.execution)
