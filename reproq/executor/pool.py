"""A pool of warm children of one kind: started through the guard, one task each at a time.

The pool knows processes and lines; what an answer or a death means for a task is its owner's to say. A slot is free
again only when the guard has told that the child, its group and its leftovers are gone, or when the child answered.

Short tasks would spend most of their time waiting for the next line. So more lines may wait in the socket of our own
children (`packets`), which read one of them at a time, when they begin it. What a child hasn't read the pool reads back
from the same socket, when a task takes long or the child has ended: the kernel hands every line to one of the two, so
it is known exactly which tasks a dead child had begun.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable
from fcntl import F_DUPFD_CLOEXEC, fcntl
from functools import partial
from typing import Any, Protocol

from reproq.executor.guard_client import Guard
from reproq.executor.hearing import Hearing, Listener
from reproq.executor.members import PACKET, Child, Kind, PipeBack, SocketBack
from reproq.executor.order import is_torn, run_line_head, run_line_id
from reproq.models.execution import End, Execution

_STOP = b'{"v":1,"do":"stop"}\n'
_UMASK = 0o077  # what a task writes is nobody else's, unless it says so
_OOM_SCORE = 500  # when memory runs out, a task goes before its worker
_BOOT_PAUSE_S, _MAX_BOOT_PAUSE_S = 0.1, 30.0
_DEADLINE_PAUSE_S = 0.6
_PROVEN_S = 10.0  # a child that was ready for so long shows that children can be started


class Watcher(Protocol):
    def watch(self, fd: int, handler: Callable[[int], None], *, early: bool = False, calm: bool = False) -> None: ...
    def watch_write(self, fd: int, handler: Callable[[int], None]) -> None: ...
    def unwatch(self, fd: int) -> None: ...


class Owner(Protocol):
    def child_ready(self, child: Child, hello: bytes) -> bool: ...
    def child_ended(self, child: Child, exit_: dict[str, Any], unread: list[Execution]) -> None: ...
    def child_not_started(self, child: Child, why: str) -> None: ...


class Pool:
    def __init__(self, kind: Kind, watcher: Watcher, owner: Owner, listener: Listener, max_line: int) -> None:
        self.kind = kind
        self.children: dict[str, Child] = {}
        self.idle: deque[Child] = deque()
        self.ever_ready = False
        self.boot_failures = 0  # in a row
        self.types: dict[str, Any] = {}
        self._watcher = watcher
        self._owner = owner
        self._listener = listener
        self._hearing = Hearing(self, listener, watcher.unwatch, max_line)
        self.started_count = 0  # since the worker began
        self._not_before = 0.0
        self._failed_at = 0.0
        self._guard: Guard | None = None
        self._template: Child | None = None
        self._forks = bool(kind.template)
        self.station: Any = None  # where its owner keeps the tasks that wait for this pool

    @property
    def busy(self) -> list[Child]:
        return [child for child in self.children.values() if child.lines]

    def use(self, guard: Guard) -> None:
        self._guard = guard

    def fill(self, now: float) -> float | None:
        """Starts what is missing; answers when to ask again, if a failed boot makes it wait."""
        template = self._template
        if template is not None and not template.ready:
            return None
        missing = self.kind.size - sum(not child.retiring for child in self.children.values() if child is not template)
        if missing <= 0:
            return None
        if now < self._not_before:
            return self._not_before
        if self._forks and template is None:
            self._template = self._start()
            return None
        for _ in range(1 if self.boot_failures else missing):
            self._start()
        return None

    def is_template(self, child: Child) -> bool:
        return child is self._template

    def hand(self, child: Child, execution: Execution, line: bytes) -> bool:
        """Gives a child a task, or one more to wait in its socket. False: it has no room, or is gone."""
        waits = bool(child.lines)
        if waits and (len(line) > PACKET or child.unwritten):
            return False
        try:
            written = os.write(child.stdin, self._part(line))
        except BlockingIOError:
            if waits:
                return False
            written = 0
        except (BrokenPipeError, ConnectionResetError):
            return False
        child.lines.append(execution)
        child.is_long = len(line) > PACKET
        child.shallow = child.shallow or child.is_long
        if not waits and child.printed:
            child.forget_output()
        if written < len(line):
            child.unwritten = line[written:]
            self._watcher.watch_write(child.stdin, partial(self._writable, child))
        return True

    def take_back(self, child: Child) -> list[Execution]:
        """What it was given and has not read: exactly what it has not begun. It may read on meanwhile, so these need
        not be its last ones. A line of several packets, which is alone, stays until its child has ended: half of it
        would be of no use to either. A child that has read half of it has begun it: it may be what it died of."""
        if not child.lines:
            return []
        ended = child.key not in self.children
        if child.is_long and not ended:
            return []
        unread = child.back.unread(ended)
        heads = {packet[: packet.find(b',"worker_id"')] for packet in unread}
        # A command that leaves its task unread until the time-out would leave it for ever.
        taken = [e for e in child.lines if run_line_head(e) in heads and e.end is not End.TIMED_OUT] if heads else []
        for execution in taken:
            child.lines.remove(execution)
        return taken

    def has_begun(self, child: Child) -> bool:
        """Whether it has read all of the line of its first task. Of a command that can't be known."""
        if not self.kind.packets:
            return True
        if child.unwritten or not child.lines:
            return False
        head = child.back.head()
        return not (is_torn(head) or run_line_id(head) == child.lines[0].id)

    def hear(self, child: Child) -> None:
        """What it has said by now. It is to be ended because of a task: it may have answered, and begun the next."""
        self._hearing.hear(child)

    def tell(self, child: Child, line: bytes) -> None:
        """A line beside the task's (cancel, stop). Lost if the pipe is full: a kill follows anyway."""
        if not child.unwritten:
            try:
                os.write(child.stdin, line)
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass

    def answered(self, child: Child) -> Execution | None:
        """Its first task is over; answers the one that it runs next."""
        child.lines.popleft()
        child.served += 1
        child.shallow = False
        if self.boot_failures and child.ready_at > self._failed_at:
            self.boot_failures = 0
        if child.printed:
            child.forget_output()
        if child.lines:
            return child.lines[0]
        if child.parts:
            self._listener.child_garbled(child, "it left half a line behind its answer", None)
        self.release(child)
        return None

    def release(self, child: Child) -> None:
        """It has nothing to do: it may have the next task, or has had enough."""
        if self.kind.recycle is not None and child.served >= self.kind.recycle and not child.retiring:
            self.retire(child)
        elif not child.retiring:
            self.idle.append(child)
        else:
            self.tell(child, _STOP)

    def room(self, child: Child) -> int:
        """How many more lines it may have before another child takes its place."""
        if child.retiring or child.shallow:
            return 0
        return 1 << 30 if self.kind.recycle is None else self.kind.recycle - child.served - len(child.lines)

    def withdraw(self, child: Child) -> None:
        """No more tasks for this one."""
        child.retiring = True
        if child in self.idle:
            self.idle.remove(child)

    def retire(self, child: Child) -> None:
        """No more tasks for this one; it ends by itself when it is idle."""
        self.withdraw(child)
        if not child.lines:
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
        self._forget_template(child)
        unread = self.take_back(child)
        self._hearing.hear_last_words(child)
        unread += self.take_back(child)  # what was handed to it because of what it had said last
        self._close(child)
        if child.ready and now - child.ready_at > _PROVEN_S:
            self.boot_failures = 0
        if exit_.get("by") == "deadline":  # until it is over, the guard would kill another at once
            self._not_before = max(self._not_before, now + _DEADLINE_PAUSE_S)
        if self._is_stillborn(child, exit_):
            child.boot_failed = not child.ready
            self._boot_failed(now)
        self._owner.child_ended(child, exit_, unread)

    def start_failed(self, key: str, why: str, now: float) -> None:
        child = self.children.pop(key)
        self._forget_template(child)
        self._close(child)
        self._boot_failed(now)
        self._owner.child_not_started(child, why)

    def memory_bytes(self, child: Child) -> int:
        try:
            with open(f"/proc/{child.pid}/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def _forget_template(self, child: Child) -> None:
        if child is self._template:
            self._template = None

    def _start(self) -> Child:
        assert self._guard is not None
        self.started_count += 1
        is_template = self._forks and self._template is None
        key = f"{self.kind.name}-{'template-' if is_template else ''}{self.started_count}"
        theirs_in, stdin, back = self._input()
        stdout, theirs_out = os.pipe2(os.O_CLOEXEC)
        log, theirs_log = os.pipe2(os.O_CLOEXEC)
        child = Child(self, key, stdin, stdout, log, back)
        for fd in (stdin, stdout, log):
            os.set_blocking(fd, False)
        kind, theirs = self.kind, [theirs_in, theirs_out, theirs_log]
        try:
            if self._template is not None:
                self._guard.fork_child(key, self._template.key, theirs)
            else:
                child.uid = self._free_uid()
                argv = kind.template if is_template else kind.argv
                self._guard.start_child(
                    key, argv, kind.env, theirs, cwd=kind.cwd, forks=is_template, **_confined(child)
                )
        finally:
            for fd in theirs:
                os.close(fd)
        self.children[key] = child
        self._watcher.watch(log, partial(self._hearing.log_readable, child), early=True)
        self._watcher.watch(stdout, partial(self._hearing.readable, child), calm=True)
        if kind.greeting:
            self.tell(child, kind.greeting)
        return child

    def _free_uid(self) -> int | None:
        """One that no living child has, as long as there are enough."""
        uids = self.kind.confinement.uids
        taken = {child.uid for child in self.children.values()}
        return next((uid for uid in uids if uid not in taken), uids[0] if uids else None)

    def _input(self) -> tuple[int, int, SocketBack | PipeBack]:
        """Its end, ours, its end again. A pipe for anybody; for our own children a socket that keeps lines apart."""
        if not self.kind.packets:
            reading, writing = os.pipe2(os.O_CLOEXEC)
            return reading, writing, PipeBack(fcntl(reading, F_DUPFD_CLOEXEC, 0))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        back = SocketBack(theirs.dup())
        return theirs.detach(), ours.detach(), back

    @staticmethod
    def _is_stillborn(child: Child, exit_: dict[str, Any]) -> bool:
        """It came to nothing by itself. One that says that it is ready and then ends would else be started for ever."""
        if child.ready and (child.served or child.execution is not None):
            return False
        return child.garbled or (not child.retiring and exit_.get("by") is None)

    def _boot_failed(self, now: float) -> None:
        self.boot_failures += 1
        self._failed_at = now
        self._not_before = now + min(_MAX_BOOT_PAUSE_S, _BOOT_PAUSE_S * 2 ** min(self.boot_failures, 10))

    def _close(self, child: Child) -> None:
        if child in self.idle:
            self.idle.remove(child)
        for fd in (child.stdin, child.stdout, child.log):
            self._watcher.unwatch(fd)
            os.close(fd)
        child.back.close()

    def _part(self, line: bytes) -> bytes:
        """What fits into one packet; a pipe takes what it can."""
        return line[:PACKET] if self.kind.packets and len(line) > PACKET else line

    def _writable(self, child: Child, _event: int) -> None:
        try:
            written = os.write(child.stdin, self._part(child.unwritten))
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):  # it has died; its end is about to be told
            written = len(child.unwritten)
        child.unwritten = child.unwritten[written:]
        if not child.unwritten:
            self._watcher.unwatch(child.stdin)

    def is_up(self, child: Child, hello: bytes) -> bool:
        """It has said that it is ready. Whether its first line is what it has to be."""
        if not self._owner.child_ready(child, hello):
            return False
        child.ready = self.ever_ready = True
        child.ready_at = time.monotonic()
        child.forget_output()
        if child is self._template:
            self._fork_or_not(child)
        elif not child.retiring:
            self.idle.append(child)
        return True

    def _fork_or_not(self, template: Child) -> None:
        if template.cannot_fork:
            self._forks, self._template = False, None
            self.retire(template)
        self.fill(template.ready_at)


def _confined(child: Child) -> dict[str, Any]:
    confinement = child.pool.kind.confinement
    return {
        "oom": _OOM_SCORE,
        "umask": _UMASK,
        "limits": confinement.limits,
        "uid": child.uid,
        "network": confinement.network,
        "no_new_privs": not confinement.new_privileges,
    }
