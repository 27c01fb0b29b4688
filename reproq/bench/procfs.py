"""CPU and memory of processes, from /proc: exact to the microsecond where the kernel keeps scheduler statistics."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 11, 12, 13, 14


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def everyone() -> dict[int, int]:
    """Pid -> parent, of every process there is."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (fields := _stat(int(name))):
            found[int(name)] = int(fields[_PARENT])
    return found


def family(pid: int, parents: dict[int, int] | None = None) -> list[int]:
    """A process and all its descendants."""
    parents = everyone() if parents is None else parents
    offspring: dict[int, list[int]] = {}
    for child, parent in parents.items():
        offspring.setdefault(parent, []).append(child)
    found, level = [], [pid]
    while level:
        found += level
        level = [child for parent in level for child in offspring.get(parent, [])]
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds of all its living threads."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        spent = sum(int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0]) for task in tasks)
        return spent / 1e9
    except (OSError, ValueError):
        fields = _stat(pid)
        return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICK if fields else 0.0


def buried_cpu_s(pid: int) -> float:
    """CPU seconds of its children that have ended."""
    fields = _stat(pid)
    return (int(fields[_CHILDREN_USER]) + int(fields[_CHILDREN_SYSTEM])) / _TICK if fields else 0.0


def total_cpu_s(pids: Iterable[int]) -> float:
    """CPU seconds of a family, its dead members included."""
    return sum(cpu_s(pid) + buried_cpu_s(pid) for pid in pids)


def rss_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6
    except (OSError, IndexError):
        return 0.0


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[_PARENT]) if fields else None


def machine_busy_s() -> float:
    """CPU seconds that the whole machine has spent; what other tenants took from it counts too."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / _TICK
