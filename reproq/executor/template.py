"""A template: a Python child that has imported the app and, instead of running tasks, forks children that run one each.

`--recycle 1` gives every task a process of its own; to start an interpreter and import the app for each would take a
hundred times as long as a fork. The guard asks for a fork over a socket, with the new child's descriptors. The fork is
a double one: when the process between has ended, the new child is the guard's own (child subreaper), and the guard
keeps and buries it as any other.

What a fork would share is refused: with a thread or an open connection left by an import, children are started from
the program as ever.
"""

from __future__ import annotations

import array
import gc
import os
import select
import signal
import socket
import sys

from reproq.executor import kernel
from reproq.executor.child_wire import Wire
from reproq.executor.launch import TEMPLATE_FD, wear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_FDS = 4  # stdin, stdout, stderr, and the pipe whose end of file says that the start went well


def unfit(wire: Wire) -> str | None:
    """Why this process must not be forked, for the log."""
    threads = len(os.listdir("/proc/self/task")) - 1
    if threads:
        return f"an import started {threads} {'thread' if threads == 1 else 'threads'}"
    ours = {wire.source, wire.sink, wire.log, TEMPLATE_FD}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in ours and _is_socket(name):
            return "an import opened a connection"
    return None


def _is_socket(name: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    except OSError:
        return False


def fork_on_request(wire: Wire, ready: bytes) -> bool:
    """True in each new child, which has said that it is ready; False in the template, when it is to end."""
    control = socket.socket(fileno=TEMPLATE_FD)
    guard = os.getppid()
    gc.collect()
    gc.freeze()  # else the first collection of each child would copy every page
    poll = select.poll()
    poll.register(wire.source, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        if any(fd == wire.source for fd, _ in poll.poll()):
            if not wire.goes_on():
                return False
            continue
        key, tag, fds = _order(control)
        if len(fds) == _FDS and _forked():
            _become(wire, control, guard, key, tag, fds)
            wire.send(ready)
            return True
        for fd in fds:
            os.close(fd)


def _order(control: socket.socket) -> tuple[str, int, list[int]]:
    data, ancillary, _, _ = control.recvmsg(4096, socket.CMSG_SPACE(_FDS * 4), socket.MSG_CMSG_CLOEXEC)
    if not data:  # the guard is gone, and the signal that ends us is on its way
        sys.exit(0)
    fds = array.array("i")
    for _, _, rights in ancillary:
        fds.frombytes(rights[: len(rights) - len(rights) % fds.itemsize])
    key, _, tag = data.decode().rpartition(" ")
    return key, int(tag), fds.tolist()


def _forked() -> bool:
    """Whether we are the new child: the grandchild, whose parent is over."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        between = os.fork()
    except OSError:  # no more processes: the descriptors are closed, and the guard hears it from that
        return False
    if between == 0:
        return _forked_again()
    try:
        os.waitpid(between, 0)
    except ChildProcessError:  # an import made SIGCHLD be ignored
        pass
    return False


def _forked_again() -> bool:
    between = os.getpid()
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        os._exit(1)
    while os.getppid() == between:
        os.sched_yield()
    return True


def _become(wire: Wire, control: socket.socket, guard: int, key: str, tag: int, fds: list[int]) -> None:
    wear(tag)
    os.setsid()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(127)
    control.send(f"{key} {os.getpid()}".encode())  # before anything else: from now on the guard knows us
    control.close()
    *streams, told = fds
    wire.adopt(*streams)
    os.close(told)


def leave() -> NoReturn:
    """The end of a fork, without taking apart what it shares with its template: that would copy all of it."""
    import atexit

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass
    os._exit(0)
