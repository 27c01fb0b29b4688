"""A connection on which a whole exchange ends at one deadline: a peer that answers an octet a second can't stretch it.
(Looking a name up is the exception: the system's resolver has its own time-outs.)"""

from __future__ import annotations

import io
import select
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any


class Line:
    """Enough of a socket for smtplib and http.client."""

    def __init__(self, sock: socket.socket, ends: float) -> None:
        self.sock = sock
        self.ends = ends  # time.monotonic()

    def arm(self) -> None:
        self.sock.settimeout(left(self.ends))

    def sendall(self, data: bytes) -> None:
        self.arm()
        self.sock.sendall(data)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self))

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        self.arm()
        self.sock = context.wrap_socket(self.sock, server_hostname=host)

    def is_quiet(self) -> bool:
        """Between two exchanges a server says nothing, unless it closes."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        self.sock.close()


class _Reader(io.RawIOBase):
    def __init__(self, line: Line) -> None:
        self._line = line
        # A file of the socket, not the socket: http.client closes the socket before it has read the whole answer.
        self._raw = line.sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._line.arm()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def left(ends: float) -> float:
    rest = ends - time.monotonic()
    if rest <= 0:
        raise TimeoutError("timed out")
    return rest


def dial(host: str, port: int, ends: float) -> Line:
    return dial_one_of(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), ends)


def dial_one_of(found: Sequence[tuple[Any, Any, int, str, Any]], ends: float) -> Line:
    """Try each address, as getaddrinfo answers them, with a fair share of the time."""
    problem: OSError = OSError("its name has no address")
    for place, (family, kind, protocol, _, address) in enumerate(found):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(left(ends) / (len(found) - place))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as failed:
            sock.close()
            problem = failed
        else:
            return Line(sock, ends)
    raise problem
