"""The keeper of a throw-away server: when its starter is gone, however it went, so are the server and its folder.

A parent-death signal wouldn't do: it follows the thread that spawned, is lost when the uid changes, and removes no
folder. So this small process (standard library only, its own session) is the server's parent and watches the starter.
"""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from typing import Any

STOP_S = 10


def command(starter: int, folder: str, lock_fd: int, uid: int | None, server: list[str]) -> list[str]:
    """Return the command line that starts a keeper from any working directory."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = f"import sys; sys.path.insert(0, {root!r}); from reproq.db import keeper as k; sys.exit(k.main())"
    return [sys.executable, "-I", "-S", "-c", code, str(starter), folder, str(lock_fd), str(uid or ""), *server]


def main() -> int:
    """Run the server until it ends by itself, the starter is gone, or TERM."""
    starter, folder, lock_fd, uid, *server = sys.argv[1:]
    stop = _note_term()
    watched = _watch(int(starter))
    user: dict[str, Any] = {"user": int(uid), "group": int(uid), "extra_groups": []} if uid else {}
    process = subprocess.Popen(server, pass_fds=[int(lock_fd)], **user)
    ended = os.pidfd_open(process.pid)
    if watched is not None and ended in select.select([ended, stop.fileno(), watched], [], [])[0]:
        return process.wait()
    _end(process)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _note_term() -> socket.socket:
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno())
    signal.signal(signal.SIGTERM, lambda *_: None)
    _KEPT.append(writer)
    return reader


_KEPT: list[socket.socket] = []


def _watch(starter: int) -> int | None:
    """Return a descriptor that becomes readable when the starter ends; None: it has ended already."""
    try:
        watched = os.pidfd_open(starter)
    except ProcessLookupError:
        return None
    return watched if os.getppid() == starter else None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGQUIT)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
