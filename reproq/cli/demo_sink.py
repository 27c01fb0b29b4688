"""The demo's mail server: enough SMTP for one client on this machine. It puts the first message off, then takes all."""

from __future__ import annotations

import socketserver
import threading
from typing import Self

_ANSWERS = {
    "EHLO": "250 demo",
    "HELO": "250 demo",
    "MAIL": "250 ok",
    "RCPT": "250 ok",
    "RSET": "250 ok",
    "NOOP": "250 ok",
}


class _Conversation(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        self._say("220 demo")
        while line := self.rfile.readline():
            verb = line.split(maxsplit=1)[0].decode("ascii", "replace").upper() if line.strip() else ""
            if verb == "DATA":
                self._say("354 go on")
                self._say(self.server.sink.take(self._message()))
            elif verb == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say(_ANSWERS.get(verb, "500 what?"))

    def _message(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line)
        return b"".join(lines)

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    sink: Sink


class Sink:
    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self._put_off = False

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _Conversation)
        self._server.sink = self
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self._server.server_address[1]}?tls=none"

    def take(self, message: bytes) -> str:
        if not self._put_off:
            self._put_off = True
            return "451 the demo puts the first message off"
        self.messages.append(message)
        return "250 taken"
