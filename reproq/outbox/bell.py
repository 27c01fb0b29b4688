"""What wakes a dispatcher: a signal, an outcome of a courier, a notification of the database."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Sequence


class Bell:
    """Rings are counted as one until somebody listens. Signals are for the main thread."""

    def __init__(self) -> None:
        self._ear, self._clapper = socket.socketpair()
        for end in (self._ear, self._clapper):
            end.setblocking(False)
        self.stops_asked = 0

    def on(self, signals: Sequence[signal.Signals]) -> None:
        signal.set_wakeup_fd(self._clapper.fileno(), warn_on_full_buffer=False)
        for number in signals:
            signal.signal(number, self._asked)

    def _asked(self, _number: int, _frame: object) -> None:
        self.stops_asked += 1

    def ring(self) -> None:
        """From any thread."""
        try:
            self._clapper.send(b"x")
        except BlockingIOError:  # so many are on their way that one more changes nothing
            pass

    def wait(self, seconds: float, also: int | None = None) -> None:
        """Until it rings, the descriptor `also` can be read, or the time is over."""
        poll = select.poll()
        poll.register(self._ear, select.POLLIN)
        if also is not None:
            poll.register(also, select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)
        try:
            while self._ear.recv(4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._ear.close()
        self._clapper.close()
