"""A terminal that hands over single keys, and is as it was afterwards. Signals only note themselves and wake."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import termios
import tty
from types import FrameType
from typing import Any, Self

_NOTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH)


class Terminal:
    """Keys and signals of whoever sits before it."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._noted: list[int] = []

    def __enter__(self) -> Self:
        self._mode = termios.tcgetattr(self._fd)
        self._handlers: dict[int, Any] = {number: signal.signal(number, self._note) for number in _NOTED}
        self._wakeup = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def listen(self) -> None:
        """Keys come one by one and unseen; Ctrl-C stays a signal."""
        tty.setcbreak(self._fd)

    def restore(self) -> None:
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._mode)

    def suspend(self) -> None:
        """Ctrl-Z; goes on when the shell says so."""
        self.restore()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.listen()

    def wake(self) -> None:
        """Any thread may call this."""
        try:
            self._waker.send(b"\0")
        except BlockingIOError:
            pass  # awake enough

    def wait(self, seconds: float) -> tuple[str, list[int]]:
        """The keys and signals that came until something happened."""
        readable, _, _ = select.select([self._fd, self._wake], [], [], seconds)
        keys = ""
        if self._wake in readable:
            self._wake.recv(4096)
        if self._fd in readable:
            data = os.read(self._fd, 1024)
            keys = data.decode(errors="replace")
            if not data:  # the terminal is gone
                self._noted.append(signal.SIGHUP)
        noted, self._noted = self._noted, []
        return keys, noted

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._noted.append(number)
