"""An SMTP server of a few lines that does at each step what the test says: a reply, a cut, or silence."""

from __future__ import annotations

import socket
import threading
from typing import Self

CUT = "cut"
HANG = "hang"
Action = str | bytes
ORDINARY: dict[str, Action] = {
    "greeting": b"220 scripted ready\r\n",
    "EHLO": b"250-scripted\r\n250 SIZE 10000000\r\n",
    "MAIL": b"250 fine\r\n",
    "RCPT": b"250 fine\r\n",
    "DATA": b"354 go on\r\n",
    "eod": b"250 taken\r\n",
    "RSET": b"250 fine\r\n",
    "QUIT": b"221 bye\r\n",
}


class _Ended(Exception):
    """The script or the other side ends this connection."""


class ScriptedSmtp:
    def __init__(self, **script: Action) -> None:
        self.script: dict[str, Action] = ORDINARY | script
        self.commands: list[str] = []
        self.messages: list[bytes] = []
        self.connections = 0
        self.closed = threading.Event()
        self.hung_up = threading.Event()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def hang_up(self) -> None:
        """Close what is open, as a server does with idle connections."""
        for connection in self._open:
            connection.shutdown(socket.SHUT_RDWR)
        assert self.hung_up.wait(10)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        self._open = [connection]
        self.hung_up.clear()
        try:
            with connection, connection.makefile("rb") as lines:
                self._act(connection, "greeting")
                while line := lines.readline():
                    self._answer(connection, lines, line)
        except (_Ended, OSError):
            pass
        finally:
            self.hung_up.set()

    def _answer(self, connection: socket.socket, lines: object, line: bytes) -> None:
        verb = line.split()[0].decode().upper()
        self.commands.append(line.decode().strip())
        self._act(connection, verb)
        if verb == "DATA" and self.script["DATA"][:3] == b"354":
            self._take(connection, lines)

    def _take(self, connection: socket.socket, lines: object) -> None:
        content = b""
        while (line := lines.readline()) not in (b".\r\n", b""):  # type: ignore[attr-defined]
            content += line
            if self.script.get("data") == CUT:
                raise _Ended
        if line == b"":
            raise _Ended
        self.messages.append(content)
        self._act(connection, "eod")

    def _act(self, connection: socket.socket, step: str) -> None:
        action = self.script.get(step, b"502 unknown\r\n")
        if action == HANG:
            self.closed.wait(60)
            raise _Ended
        if action == CUT:
            raise _Ended
        assert isinstance(action, bytes)
        connection.sendall(action)
