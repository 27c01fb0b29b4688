"""Time, CPU time and memory of a task, as text for its envelope."""

from __future__ import annotations

from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage


class Usage:
    """The memory is the child's highest so far, not this task's alone: Linux keeps no other figure."""

    def __init__(self) -> None:
        self._children_cpu = 0.0

    def of(self, took_ns: int, cpu_before: float) -> str:
        """Programs that the task ran and waited for count too."""
        own, children = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
        children_cpu = children.ru_utime + children.ru_stime
        cpu = own.ru_utime + own.ru_stime - cpu_before + children_cpu - self._children_cpu
        self._children_cpu = children_cpu
        rss = max(own.ru_maxrss, children.ru_maxrss)
        return f',"ran_s":{took_ns / 1e9:.6f},"cpu_s":{max(cpu, 0.0):.6f},"max_rss_kb":{rss}'
