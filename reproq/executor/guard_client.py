"""The runner's end of the guard (see guard.py): starts it, tells it what to do, reads what happened."""

from __future__ import annotations

import array
import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reproq.executor.child import TEMPLATE
from reproq.models.errors import ReproqError

Event = dict[str, Any]

# -I and -S: nothing of the user's (PYTHONPATH, site, working directory) is imported by the guard. Our own package is
# found at the END of the path, so that nothing beside it shadows the standard library.
_BOOT = "import sys; sys.path.append(sys.argv[1]); from reproq.executor.guard import main; main(int(sys.argv[2]))"
_ROOT = str(Path(__file__).resolve().parents[2])
_PATIENCE_S = 2.0
_CHILD = (
    "import os, sys; sys.path[:1] = [os.getcwd()] if sys.path[0] == '' else sys.path[:1]; "
    "from reproq.executor.child import main; main()"
)


def child_command(modules: Sequence[str], *, template: bool = False) -> list[str]:
    """The Python child's argv. As `python -m reproq.executor.child MODULE…`, without the 3 ms that -m costs."""
    return [sys.executable, "-c", _CHILD, *([TEMPLATE] if template else []), *modules]


def system_command() -> list[str]:
    """The system child's argv: isolated, so that nothing of the user's (a calendar.py in the working directory, say) is
    imported where the keys are. What it needs itself comes last in its path."""
    import psycopg

    roots = [_ROOT, str(Path(psycopg.__file__).resolve().parents[1])]
    code = f"import sys; sys.path += {roots!r}; from reproq.executor.system_child import main; main()"
    return [sys.executable, "-I", "-c", code]


class GuardGone(ReproqError):
    """The guard has ended, and with it every child. Start another one."""


class GuardStuck(ReproqError):
    """The guard doesn't read what it is told (stopped?). Its kernel timer ends it at its last deadline."""


class Guard:
    """Sends are thread-safe; receive() belongs to one thread."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self._process = process
        self._socket = sock
        self._lock = threading.Lock()
        self._gone = False
        sock.setblocking(False)

    @classmethod
    def start(cls, env: Mapping[str, str]) -> Guard:
        """`env` is what every child inherits. Doesn't wait: the first event is `up`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            argv = [sys.executable, "-I", "-S", "-c", _BOOT, _ROOT, str(theirs.fileno())]
            process = subprocess.Popen(
                argv,
                env=dict(env),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        return cls(process, ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._socket.fileno()

    def start_child(
        self,
        key: str,
        argv: Sequence[str],
        env: Mapping[str, str | None],
        fds: Sequence[int],
        *,
        cwd: str | None = None,
        oom: int | None = None,
        limits: Mapping[str, int] | None = None,
        umask: int | None = None,
        no_new_privs: bool = False,
        uid: int | None = None,
        network: bool = True,
        forks: bool = False,
    ) -> None:
        """`fds` = its stdin, stdout and stderr; the caller closes its copies after this returns.

        `forks` = it is a template, by whose key fork_child() names it once it has said that it is ready.
        """
        order: Event = {"do": "start", "key": key, "argv": list(argv), "env": dict(env), "cwd": cwd, "oom": oom}
        order |= {"limits": dict(limits or {}), "umask": umask, "no_new_privs": no_new_privs, "forks": forks}
        order |= {"uid": uid, "network": network}
        self._send(order, fds)

    def fork_child(self, key: str, template: str, fds: Sequence[int]) -> None:
        """As start_child, from a template: its program, its environment, its limits."""
        self._send({"do": "start", "key": key, "template": template}, fds)

    def kill(self, key: str, signal: int) -> None:
        self._send({"do": "kill", "key": key, "signal": int(signal)})

    def sweep(self, key: str) -> None:
        self._send({"do": "sweep", "key": key})

    def deadline(self, at: int | None, but: Mapping[str, int] | None = None, *, ack: bool = False) -> bool:
        """Never waits. False: the guard isn't reading, and its old deadline stands."""
        try:
            self._send({"do": "deadline", "at": at, "but": dict(but or {}), "ack": ack}, patience_s=0)
        except GuardStuck:
            return False
        return True

    def receive(self) -> list[Event]:
        """What has happened, without waiting. The last event is `gone`, once; then the socket says end of file."""
        events: list[Event] = []
        while not self._gone:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                break
            except ConnectionError:
                data = b""
            events.append(json.loads(data) if data else self._bury())
        return events

    def stop(self, timeout: float = 10) -> int:
        """Ends every child and the guard, and answers its exit status (negative: a signal). Drops unread events."""
        try:
            self._send({"do": "stop"})
        except (GuardGone, GuardStuck):
            pass
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self.close()
        return self._process.wait()

    def close(self) -> None:
        """Kills the guard, and so its children, with no regard to what it is doing."""
        self._gone = True
        self._process.kill()  # nothing, if it has been waited for
        self._socket.close()
        self._process.wait()

    def _bury(self) -> Event:
        self._gone = True
        code = self._process.wait()  # its end of the socket is closed: it has ended, or is about to
        return {"event": "gone", "exit_code": code if code >= 0 else None, "signal": -code if code < 0 else None}

    def _send(self, message: Event, fds: Sequence[int] = (), patience_s: float = _PATIENCE_S) -> None:
        data = json.dumps(message, separators=(",", ":")).encode()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        until = time.monotonic() + patience_s
        with self._lock:
            if self._gone:
                raise self._died()
            while not self._sent(data, ancillary):
                self._wait_for_room(until)

    def _sent(self, data: bytes, ancillary: list[tuple[int, int, array.array[int]]]) -> bool:
        try:
            self._socket.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionError):
            raise self._died() from None
        return True

    def _died(self) -> GuardGone:
        return GuardGone(f"the guard (pid {self.pid}) has ended, and every child with it; start another one")

    def _wait_for_room(self, until: float) -> None:
        left = until - time.monotonic()
        if left <= 0:
            raise GuardStuck(f"the guard (pid {self.pid}) doesn't read its socket; is it stopped?")
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        poll.poll(left * 1000)
