"""What tasks print, as lines of the worker's log. A task that prints without end costs the log a bounded amount."""

from __future__ import annotations

from typing import Any

from reproq.executor.members import Child
from reproq.log import Event, say

MOST_LOGGED = 64 * 1024
_MOST_LINES = 2000  # each costs ten microseconds of the worker
_LONGEST = 8 * 1024


class TaskOutput:
    def __init__(self) -> None:
        self._parts: dict[str, bytes] = {}
        self._left: dict[str, int] = {}  # lines that may still be logged; -1: it has been said that no more are

    def say(self, child: Child, data: bytes) -> None:
        """`child.printed` counts what the current task printed, these bytes included."""
        before = child.printed - len(data)
        left = self._left.get(child.key, _MOST_LINES) if before else _MOST_LINES
        if left < 0:
            return
        text = self._parts.pop(child.key, b"") + data[: MOST_LOGGED - before]
        *lines, rest = text.split(b"\n")
        if child.printed >= MOST_LOGGED:
            lines.append(rest)
        elif rest:
            self._parts[child.key] = rest
        lines = [line for line in lines if line]
        for line in lines[:left]:
            self._line(child, line)
        if child.printed >= MOST_LOGGED or len(lines) > left:
            self._parts.pop(child.key, None)
            self._line(child, b"(more output of this task is not logged; its last 64 KiB are kept if it fails)")
            left = -1
        self._left[child.key] = max(-1, left - len(lines))

    def end(self, child: Child) -> None:
        """The task is over: what it left without a newline is a line too."""
        self._left.pop(child.key, None)
        rest = self._parts.pop(child.key, b"")
        if rest:
            self._line(child, rest)

    @staticmethod
    def _line(child: Child, line: bytes) -> None:
        execution = child.execution
        task: dict[str, Any] = {"task_id": execution.id, "task_type": execution.task_type} if execution else {}
        say(Event.TASK_OUTPUT, line[:_LONGEST].decode(errors="replace"), child=child.key, **task)
