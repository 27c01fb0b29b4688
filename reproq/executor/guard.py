"""The guard: the small process between the runner and its children, which sees to it that they end.

- It does what one socket tells it (JSON datagrams, descriptors beside a start) and answers on it; end of file = the
  runner is gone: everything is killed at once.
- The deadline the runner sends is kept twice: 0.5 s before it the guard kills the children; at it a kernel timer kills
  the guard, which the children don't survive (PR_SET_PDEATHSIG). The timer works while the guard is stopped.
- Whatever a child leaves behind is reparented to the guard (child subreaper) and killed when the child has ended. A
  child's end is told only then.
- One thread, and no step of more than some 20 ms: a long kill goes on in the next turn.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time

from reproq.executor import containment, kernel
from reproq.executor.guard_templates import Templates, Unborn
from reproq.executor.guard_wire import Wire
from reproq.executor.launch import LaunchError, inherited_environment, launch, tag_of
from reproq.executor.title import Title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Message = dict[str, Any]

AHEAD_NS = 500_000_000
_LAST_RESORT_NS = 200_000_000
_RETRY_S = 0.002
_SWEEP_S = 2.0
_GIVE_UP_S = 10.0


class Child:
    __slots__ = ("by", "doomed", "ended", "failure", "key", "pid", "spared", "sweep_until", "swept", "tag", "tell")

    def __init__(self, key: str, pid: int, tag: int, tell: int, spared: int | None) -> None:
        self.key = key
        self.pid = pid
        self.tag = tag
        self.tell = tell  # the pipe of its start; -1 once it has been read
        self.spared = spared  # the deadline that was over before it was born
        self.by: str | None = None
        self.doomed = False
        self.failure: str | None = None
        self.ended: Message | None = None
        self.sweep_until = 0.0
        self.swept: set[int] = set()


class Guard:
    def __init__(self, wire: Wire, environment: dict[str, str], nice: int) -> None:
        self.wire = wire
        self.environment = environment
        self.nice = nice
        self.children: dict[str, Child] = {}
        self.by_pid: dict[int, Child] = {}
        self.templates = Templates()
        self.count = 0
        self.timer = kernel.SuicideTimer()
        self.at: int | None = None
        self.but: dict[str, int] = {}
        self.closing_until = 0.0
        self.wake, waker = socket.socketpair()
        for end in (self.wake, waker):
            end.setblocking(False)
        self._waker = waker
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)

    def run(self) -> None:
        self.wire.send({"event": "up", "pid": os.getpid()})
        while not self._over():
            self._wait()
            self._deliver()
            self._reap()
            self._read_starts()
            self._obey()
            self._keep_deadlines()
            self._work()
            self.wire.flush()
        self.wire.drain(1.0)

    def _over(self) -> bool:
        if not self.closing_until:
            return False
        nobody = not self.children and not containment.children_of(os.getpid())
        return nobody or time.monotonic() > self.closing_until

    # waiting

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        if not self.wire.ended:
            poll.register(self.wire.socket, self.wire.interest())
        for child in self.children.values():
            if child.tell >= 0:
                poll.register(child.tell, select.POLLIN)
        for sock in self.templates.sockets.values():
            poll.register(sock, select.POLLIN)
        for unborn in self.templates.unborn.values():
            poll.register(unborn.tell, select.POLLIN)
        poll.poll(self._patience_ms())
        try:
            self.wake.recv(4096)
        except BlockingIOError:
            pass

    def _patience_ms(self) -> float | None:
        if self.closing_until or any(self._busy(child) for child in self.children.values()):
            return _RETRY_S * 1000
        dues = [due for child in self.children.values() if (due := self._due(child)) is not None]
        if not dues:
            return None
        return max(0.0, (min(dues) - AHEAD_NS - kernel.boottime_ns()) / 1e6) + 0.5

    @staticmethod
    def _busy(child: Child) -> bool:
        return child.doomed or child.ended is not None or child.sweep_until > 0

    # what the runner says

    def _obey(self) -> None:
        for message, fds in self.wire.receive():
            try:
                self._obey_one(message, fds)
            except (KeyError, TypeError, ValueError) as error:
                complain(f"order not understood: {error!r} in {str(message)[:200]}")
            finally:
                for fd in fds:
                    os.close(fd)
        if self.wire.ended and not self.closing_until:
            self._stop({})

    def _obey_one(self, message: Message, fds: list[int]) -> None:
        do = message.get("do")
        if do == "start":
            self._start(message, fds)
        elif do == "deadline":
            self._deadline(message)
        elif do == "kill":
            self._kill(message)
        elif do == "sweep":
            self._sweep(message)
        elif do == "stop":
            self._stop(message)
        else:
            raise ValueError(f"unknown: {do!r}")

    def _start(self, message: Message, fds: list[int]) -> None:
        key = message["key"]
        refusal = self._refusal(key, message, fds)
        if refusal is None:
            over = self.at is not None and self.at <= kernel.boottime_ns()
            spared = self.at if over else None
            self.count += 1
            tag = tag_of(self.count)
            try:
                if message.get("template") is not None:
                    self.templates.ask(message["template"], key, tag, fds, spared)
                    return
                pid, tell = self._launch(message, key, fds, tag)
                self.children[key] = self.by_pid[pid] = Child(key, pid, tag, tell, spared)
            except KeyError:
                refusal = "its template has ended"
            except (LaunchError, OSError, ValueError) as error:
                refusal = str(error)
        if refusal is not None:
            self.wire.send({"event": "start_failed", "key": key, "error": refusal})

    def _launch(self, message: Message, key: str, fds: list[int], tag: int) -> tuple[int, int]:
        if not message.get("forks"):
            return launch(message, fds, self.environment, self.nice, tag)
        control = self.templates.add(key)
        try:
            return launch(message, [*fds, control], self.environment, self.nice, tag)
        except BaseException:
            self.templates.drop(key)
            raise
        finally:
            os.close(control)

    def _deliver(self) -> None:
        """Forks that have been born become children like any other. Who is silent is looked at first: a new child
        says who it is before it closes its pipe."""
        silent = self.templates.silent()
        ours = None
        for unborn, pid in self.templates.births():
            ours = containment.children_of(os.getpid()) if ours is None else ours
            if pid in ours and pid not in self.by_pid:  # else that is a lie
                self._born(unborn, pid)
        for unborn in silent:
            if unborn.key in self.templates.unborn:
                self.templates.forget(unborn)
                error = f"its template {unborn.template!r} ended, or has no processes left to fork"
                self.wire.send({"event": "start_failed", "key": unborn.key, "error": error})

    def _born(self, unborn: Unborn, pid: int) -> None:
        del self.templates.unborn[unborn.key]
        child = self.children[unborn.key] = self.by_pid[pid] = Child(
            unborn.key, pid, unborn.tag, unborn.tell, unborn.spared
        )
        child.by = unborn.by
        if unborn.doomed:
            self._doom(child)

    def _refusal(self, key: str, message: Message, fds: list[int]) -> str | None:
        if self.closing_until:
            return "the guard is stopping"
        if key in self.templates.unborn:
            return f"the child {key!r} is being forked already"
        if key in self.children:
            return f"the child {key!r} (pid {self.children[key].pid}) hasn't ended yet"
        if len(fds) != 3:
            return f"{len(fds)} descriptors arrived with the start, 3 are needed (too many open files?)"
        if not message.get("argv") and message.get("template") is None:
            return "the start names no program (argv is empty)"
        return None

    def _deadline(self, message: Message) -> None:
        self.at = message.get("at")
        self.but = dict(message.get("but") or {})
        if message.get("ack"):
            self._keep_deadlines()
            self.wire.send({"event": "armed", "at": self.at})

    def _kill(self, message: Message) -> None:
        unborn = self.templates.unborn.get(message["key"])
        if unborn is not None:
            unborn.by, unborn.doomed = "kill", True
            return
        child = self.children.get(message["key"])
        if child is None or child.ended is not None:
            return
        child.by = child.by or "kill"
        if message["signal"] == signal.SIGKILL:
            self._doom(child)
        else:
            containment.signal_group(child.pid, message["signal"])

    def _sweep(self, message: Message) -> None:
        child = self.children.get(message["key"])
        if child is None:
            self.wire.send({"event": "swept", "key": message["key"], "killed": 0})
        else:
            child.sweep_until = time.monotonic() + _SWEEP_S

    def _stop(self, message: Message) -> None:
        self.closing_until = time.monotonic() + _GIVE_UP_S
        for child in self.children.values():
            child.by = child.by or "kill"
            self._doom(child)
        for unborn in self.templates.unborn.values():
            unborn.by, unborn.doomed = "kill", True

    # deadlines

    def _due(self, child: Child) -> int | None:
        """None for a child whose kill is under way, and for one born after the moment: it never had that lease."""
        due = self.but.get(child.key, self.at)
        return None if due is None or child.doomed or child.ended or due == child.spared else due

    def _keep_deadlines(self) -> None:
        now = kernel.boottime_ns()
        for child in self.children.values():
            due = self._due(child)
            if due is not None and due - AHEAD_NS <= now:
                child.by = child.by or "deadline"
                self._doom(child)
        dues = [due for child in self.children.values() if (due := self._due(child)) is not None]
        self.timer.arm(min(dues) if dues else None)

    # ends

    def _doom(self, child: Child) -> None:
        child.doomed = True
        if child.ended is None:
            containment.signal_group(child.pid, signal.SIGKILL)
            self._kill_doomed(child)

    def _kill_doomed(self, child: Child) -> None:
        """The tree first: once its parent is dead, a grandchild may be hard to attribute."""
        containment.kill_tree_below(child.pid)
        containment.kill_own_child(child.pid)

    def _reap(self) -> None:
        while True:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if dead is None:
                return
            self._bury(dead.si_pid)

    def _bury(self, pid: int) -> None:
        if pid not in self.by_pid:
            self._deliver()  # a fork that was born and has ended since the last look
        child = self.by_pid.get(pid)
        if child is None:
            os.waitpid(pid, 0)
            return
        containment.signal_group(pid, signal.SIGKILL)  # before its number is free again
        _, status, usage = os.wait4(pid, 0)
        del self.by_pid[pid]
        code = os.waitstatus_to_exitcode(status)
        child.ended = {
            "event": "exited",
            "key": child.key,
            "pid": pid,
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "max_rss_kb": usage.ru_maxrss,
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 6),
            "by": child.by,
        }

    def _read_starts(self) -> None:
        for child in list(self.children.values()):
            if child.tell >= 0:
                self._read_start(child)

    def _read_start(self, child: Child) -> None:
        try:
            text = os.read(child.tell, 4096).decode("utf-8", "replace")
        except BlockingIOError:
            return
        os.close(child.tell)
        child.tell = -1
        if text:
            child.failure = text  # told when it is reaped, so that the key is free again
        else:
            self.wire.send({"event": "started", "key": child.key, "pid": child.pid})

    def _work(self) -> None:
        for child in list(self.children.values()):
            if child.ended is not None:
                self._finish(child)
            elif child.doomed:
                self._kill_doomed(child)
            elif child.sweep_until:
                self._sweep_on(child)
        if self.closing_until and not self.children:
            self._kill_strays(self._strays())

    def _finish(self, child: Child) -> None:
        if child.tell >= 0:
            return  # first tell how its start went
        if self._kill_strays(self._leftovers(child)):
            return
        del self.children[child.key]
        self.but.pop(child.key, None)
        self._deliver()  # what a template said last
        self.templates.drop(child.key)
        if child.sweep_until:
            self.wire.send({"event": "swept", "key": child.key, "killed": len(child.swept)})
        if child.failure:
            self.wire.send({"event": "start_failed", "key": child.key, "error": child.failure})
        elif child.ended is not None:
            self.wire.send(child.ended)

    def _sweep_on(self, child: Child) -> None:
        strays = self._leftovers(child)
        killed = containment.kill_tree_below(child.pid)
        self._kill_strays(strays)
        child.swept.update(killed, strays)
        if (killed or strays) and time.monotonic() < child.sweep_until:
            return
        self.wire.send({"event": "swept", "key": child.key, "killed": len(child.swept)})
        child.sweep_until, child.swept = 0.0, set()

    # what was left behind

    def _strays(self) -> list[int]:
        return [pid for pid in containment.children_of(os.getpid()) if pid not in self.by_pid]

    def _kill_strays(self, strays: list[int]) -> int:
        """How many were killed and are still to be reaped. One that we may not kill (set-uid) isn't waited for."""
        count = 0
        for pid in strays:
            containment.kill_tree_below(pid)
            count += containment.kill_own_child(pid)
        return count

    def _leftovers(self, child: Child) -> list[int]:
        return [pid for pid in self._strays() if containment.tag_of(pid) == child.tag]


def complain(text: str) -> None:
    sys.stderr.write(f"reproq guard: {text}\n")
    sys.stderr.flush()


def prepare() -> int:
    """Answers the nice value the children get."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    kernel.prctl(kernel.PR_SET_NAME, b"reproq guard")
    Title().show(f"reproq guard of {os.getppid()}")
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # a child must not take the socket by ptrace or pidfd_getfd
    # A runner's death wakes a stopped guard; the end of file then tells it what happened.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGCONT)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice - 10)  # to outrun a fork bomb; needs a privilege
    except OSError:
        pass
    return nice


def main(descriptor: int) -> None:
    environment = inherited_environment()  # first: /proc/self is closed to us later, unless we are root
    nice = prepare()
    Guard(Wire(socket.socket(fileno=descriptor)), environment, nice).run()
