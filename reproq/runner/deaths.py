"""What the end of a child means for the task that it had: exit -> outcome, decided without side effects."""

from __future__ import annotations

import signal
from typing import Any

from reproq.executor.members import Child
from reproq.models.envelope import Outcome
from reproq.models.execution import End, Execution
from reproq.models.states import FailureKind


def outcome_of(execution: Execution, exit_: dict[str, Any], oom: bool) -> Outcome:
    """A failure for queues.finish. A cancelled one is cancelled by the database whatever this says."""
    kind, error = _verdict(execution, exit_, oom)
    return {"id": execution.id, "claim_no": execution.claim_no, "success": False, "kind": kind, "error": error}


def _verdict(execution: Execution, exit_: dict[str, Any], oom: bool) -> tuple[FailureKind, str]:
    if execution.end is End.TIMED_OUT:
        return FailureKind.TIMED_OUT, f"it ran longer than its time-out of {execution.timeout_s:g} s and was killed"
    if execution.end is End.CANCELLED:
        return FailureKind.INTERRUPTED, "it was cancelled"
    if exit_.get("by") == "deadline":
        return FailureKind.LEASE_EXPIRED, "its worker could not extend the lease in time, so its process was killed"
    number = exit_.get("signal")
    if number is None:
        return FailureKind.EXITED, f"its process exited with status {exit_.get('exit_code')} and without an answer"
    if oom and number == signal.SIGKILL:
        return FailureKind.OUT_OF_MEMORY, "its process was killed because memory ran out"
    return FailureKind.KILLED, f"its process was killed by {_name(number)}"


def cause_of(child: Child, exit_: dict[str, Any], oom: bool, closing: bool) -> str:
    """Why a child ended, in one word."""
    execution = child.execution
    if execution is not None and execution.end is not None:
        return execution.end.value
    if exit_.get("by") == "deadline":
        return "deadline"
    if child.garbled:
        return End.BAD_ENVELOPE.value
    if child.boot_failed:
        return "boot_failed"
    if execution is None and child.retiring:
        return "stopped" if closing else "recycled"
    if exit_.get("signal") is None:
        return "exited"
    return "out_of_memory" if oom and exit_["signal"] == signal.SIGKILL else "killed"


def _name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


class OomWatch:
    """Counts the kernel's OOM kills: a SIGKILL that nobody of us sent, while the count grew, was one of them."""

    def __init__(self) -> None:
        self._seen = self._count()

    def grew(self) -> bool:
        count, before = self._count(), self._seen
        self._seen = count
        return count > before

    @staticmethod
    def _count() -> int:
        try:
            with open("/proc/vmstat", "rb") as file:
                return next((int(line[9:]) for line in file if line.startswith(b"oom_kill ")), 0)
        except OSError:
            return 0
