"""The guard's end of the socket: never blocks, in either direction."""

from __future__ import annotations

import array
import json
import select
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Message = dict[str, Any]

MAX_MESSAGE = 1 << 20
_ANCILLARY = socket.CMSG_SPACE(8 * array.array("i").itemsize)


class Wire:
    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.ended = False
        self._outbox: list[bytes] = []
        sock.setblocking(False)

    def interest(self) -> int:
        return select.POLLIN | (select.POLLOUT if self._outbox else 0)

    def send(self, message: Message) -> None:
        self._outbox.append(json.dumps(message, separators=(",", ":")).encode())

    def flush(self) -> None:
        while self._outbox:
            try:
                self.socket.send(self._outbox[0])
            except BlockingIOError:
                return
            except OSError:  # nobody listens any more; the end of file says so too
                self._outbox.clear()
                return
            del self._outbox[0]

    def drain(self, seconds: float) -> None:
        """For the last words."""
        until = time.monotonic() + seconds
        while self._outbox and (left := until - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(self.socket, select.POLLOUT)
            poll.poll(left * 1000)
            self.flush()

    def receive(self) -> Iterator[tuple[Message, list[int]]]:
        """What has arrived; the caller closes the descriptors."""
        while not self.ended:
            try:
                data, ancillary, _, _ = self.socket.recvmsg(MAX_MESSAGE, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except ConnectionError:
                data, ancillary = b"", []
            if data:
                yield json.loads(data), _descriptors(ancillary)
            else:
                self.ended = True


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return fds.tolist()
