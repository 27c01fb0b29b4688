"""The guard's side of its templates (see template.py): asks them for forks, and hears which processes came of it."""

from __future__ import annotations

import array
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Unborn:
    """A child that a template has been asked for."""

    __slots__ = ("by", "doomed", "key", "spared", "tag", "tell", "template")

    def __init__(self, key: str, tag: int, template: str, tell: int, spared: int | None) -> None:
        self.key = key
        self.tag = tag
        self.template = template
        self.tell = tell
        self.spared = spared
        self.by: str | None = None
        self.doomed = False


class Templates:
    def __init__(self) -> None:
        self.sockets: dict[str, socket.socket] = {}
        self.unborn: dict[str, Unborn] = {}

    def add(self, key: str) -> int:
        """The template's end of a new socket, which the caller closes when the template has it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self.sockets[key] = ours
        return theirs.detach()

    def drop(self, key: str) -> None:
        """It has ended, or couldn't be started."""
        sock = self.sockets.pop(key, None)
        if sock is not None:
            sock.close()

    def ask(self, template: str, key: str, tag: int, fds: list[int], spared: int | None) -> None:
        """An OSError, or a KeyError, if there is no such template to hear it."""
        sock = self.sockets[template]
        tell, told = os.pipe2(os.O_CLOEXEC)
        try:
            rights = array.array("i", [*fds, told])
            sock.sendmsg(
                [f"{key} {tag}".encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], socket.MSG_NOSIGNAL
            )
        except OSError:
            os.close(tell)
            raise
        finally:
            os.close(told)
        os.set_blocking(tell, False)
        self.unborn[key] = Unborn(key, tag, template, tell, spared)

    def births(self) -> Iterator[tuple[Unborn, int]]:
        """Whom a new child says that it is, and its pid; the caller sees whether that is true."""
        for sock in list(self.sockets.values()):
            for key, pid in _said(sock):
                if key in self.unborn:
                    yield self.unborn[key], pid

    def silent(self) -> list[Unborn]:
        """Nobody holds the other end of their pipe any more: born, or never to be."""
        return [unborn for unborn in self.unborn.values() if _is_closed(unborn.tell)]

    def forget(self, unborn: Unborn) -> None:
        os.close(unborn.tell)
        del self.unborn[unborn.key]


def _is_closed(pipe: int) -> bool:
    try:
        return not os.read(pipe, 1)
    except BlockingIOError:
        return False


def _said(sock: socket.socket) -> Iterator[tuple[str, int]]:
    while True:
        try:
            data = sock.recv(4096)
        except OSError:
            return
        key, _, pid = data.decode("utf-8", "replace").rpartition(" ")
        if not data:
            return
        if pid.isascii() and pid.isdigit():
            yield key, int(pid)
