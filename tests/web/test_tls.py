"""Waiting, seen from the socket: one TLS connection is opened, stays open in silence, and is closed only at the end."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field

import pytest

from tests.web.conftest import Gateway
from tests.worker.harness import wait_until

APPLICATION_DATA = 23


@dataclass
class Wire:
    """A TCP proxy before the gateway that sees connections and, of what passes, the heads of the TLS records."""

    port: int
    opened: int = 0
    closed: list[float] = field(default_factory=list)
    records: dict[str, list[tuple[float, int, int]]] = field(default_factory=lambda: {"in": [], "out": []})

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.listener.getsockname()
        return str(host), int(port)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.opened += 1
            server = socket.create_connection(("127.0.0.1", self.port))
            for name, source, target in (("in", client, server), ("out", server, client)):
                threading.Thread(target=self._pass, args=(name, source, target), daemon=True).start()

    def _pass(self, name: str, source: socket.socket, target: socket.socket) -> None:
        pending = b""
        while data := self._received(source):
            target.sendall(data)
            pending += data
            while len(pending) >= 5 and len(pending) >= 5 + int.from_bytes(pending[3:5], "big"):
                length = int.from_bytes(pending[3:5], "big")
                self.records[name].append((time.monotonic(), pending[0], length))
                pending = pending[5 + length :]
        if name == "out":
            self.closed.append(time.monotonic())
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    @staticmethod
    def _received(source: socket.socket) -> bytes:
        try:
            return source.recv(65536)
        except OSError:
            return b""


@pytest.fixture
def wire(gateway: Gateway) -> Wire:
    return Wire(gateway.port)


def test_one_tls_connection_is_opened_stays_open_in_silence_and_closes_only_at_the_end(
    gateway: Gateway, wire: Wire
) -> None:
    number = gateway.enqueue()
    with (
        socket.create_connection(wire.address) as plain,
        gateway.context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        tls.sendall(
            f"GET /v1/tasks/{number}?wait=60 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: Bearer {gateway.token}\r\n\r\n".encode()
        )
        wait_until(lambda: gateway.sessions() == 1, "the gateway's look")
        wait_until(lambda: time.monotonic() - wire.records["in"][-1][0] > 2, "two seconds of silence")
        silent_since = wire.records["in"][-1][0]
        assert [kind for _, kind, _ in wire.records["in"]][-1] == APPLICATION_DATA
        assert [at for name in ("in", "out") for at, _, _ in wire.records[name] if at > silent_since + 0.5] == []
        assert (wire.opened, wire.closed) == (1, [])

        finished = gateway.finish(number, {"paid": True})
        answer = b""
        while piece := tls.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"result": {"paid": true}' in answer
    assert wire.opened == 1
    wait_until(lambda: wire.closed, "the end of the connection")
    spoken = [at for at, kind, _ in wire.records["out"] if kind == APPLICATION_DATA and at > silent_since + 0.5]
    assert silent_since + 2 < spoken[0] <= wire.closed[0]
    assert spoken[0] - finished < 2  # docs/http.md says how fast it is on a machine that isn't busy


def test_the_connection_is_kept_for_the_next_question(gateway: Gateway, wire: Wire) -> None:
    """202 at the end of the time, and the same connection asks again."""
    number = gateway.enqueue()
    with (
        socket.create_connection(wire.address) as plain,
        gateway.context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        for _ in range(2):
            asked = time.monotonic()
            tls.sendall(
                f"GET /v1/tasks/{number}?wait=1 HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {gateway.token}\r\n\r\n".encode()
            )
            answer = b""
            while not answer.endswith(b"}"):
                answer += tls.recv(65536)
            assert answer.startswith(b"HTTP/1.1 202 ")
            assert time.monotonic() - asked >= 1
    assert wire.opened == 1
