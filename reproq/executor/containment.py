"""Who descends from whom, by /proc, and how to kill it without ever hitting a stranger.

The guard is a child subreaper: whatever a child leaves behind becomes the guard's own child when its parent dies, in
whatever session it is. So everything is in the tree under the guard, and its list of children is complete. A zombie
leaves that list only when we reap it, so our own children's pids can't be reused under us; deeper ones are signalled
through a pidfd, after a look that the pid still hangs in the tree.
"""

from __future__ import annotations

import os
import resource
import signal
import time

_TAG_LINE = b"Max realtime timeout"
_BY_THREAD = os.access(f"/proc/self/task/{os.getpid()}/children", os.R_OK)


def children_of(pid: int) -> list[int]:
    """Each thread has its own list of children."""
    if not _BY_THREAD:
        return _children_by_scan(pid)
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [child for thread in threads for child in _children_of_thread(pid, thread)]


def _children_of_thread(pid: int, thread: str) -> list[int]:
    return [int(word) for word in _read(f"/proc/{pid}/task/{thread}/children").split()]


def _children_by_scan(pid: int) -> list[int]:
    """For a kernel without CONFIG_PROC_CHILDREN."""
    names = os.listdir("/proc")
    return [int(name) for name in names if name.isdigit() and parent_of(int(name)) == pid]


def descendants_of(pid: int, until: float) -> list[int]:
    """Below `pid`, without it; parents first. Stops looking at `until` (time.monotonic())."""
    found = children_of(pid)
    seen = set(found)
    for parent in found:  # grows while it is walked
        if time.monotonic() > until:
            break
        fresh = [child for child in children_of(parent) if child not in seen]
        seen.update(fresh)
        found += fresh
    return found


def parent_of(pid: int) -> int | None:
    """None: there is no such process, or it is dead and only waits to be reaped."""
    stat = _read(f"/proc/{pid}/stat")
    fields = stat[stat.rfind(b")") + 2 :].split()
    return int(fields[1]) if len(fields) > 1 and fields[0] not in b"ZX" else None


def group_and_session_of(pid: int) -> tuple[int, int]:
    stat = _read(f"/proc/{pid}/stat")
    fields = stat[stat.rfind(b")") + 2 :].split()
    return (int(fields[2]), int(fields[3])) if len(fields) > 3 else (0, 0)


def tag_of(pid: int) -> int | None:
    """The tag that it wears (launch.py); None where there is no such process any more."""
    limits = _read(f"/proc/{pid}/limits")
    start = limits.find(_TAG_LINE)
    if start < 0:
        return None if _read(f"/proc/{pid}/stat") else _hidden_tag_of(pid)
    soft = limits[start + len(_TAG_LINE) :].split(None, 1)[0]
    return int(soft) if soft.isdigit() else None


def _hidden_tag_of(pid: int) -> int | None:
    """Where /proc is mounted so that it hides what nobody may look into, and our children are such."""
    try:
        return resource.prlimit(pid, resource.RLIMIT_RTTIME)[0]
    except OSError:
        return None


def kill_descendant(pid: int, parents: set[int]) -> bool:
    """Kills `pid` if its parent is one of `parents`: the number may be a stranger's by now."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if parent_of(pid) not in parents:
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def kill_tree_below(pid: int, seconds: float = 0.02) -> list[int]:
    """Kills what hangs below `pid` and answers whom it killed; call it until it answers nobody."""
    found = descendants_of(pid, time.monotonic() + seconds)
    parents = {pid, *found}
    return [each for each in found if kill_descendant(each, parents)]


def kill_own_child(pid: int) -> bool:
    """For a pid that we alone can reap. False: not ours to kill (set-uid)."""
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def signal_group(leader: int, number: int) -> None:
    """For a leader that isn't reaped yet: until then its number is the group's and nobody else's."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        pass


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
