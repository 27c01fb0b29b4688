"""A real HTTP sink on loopback. It answers as it is told, and keeps what it has got."""

from __future__ import annotations

import itertools
import json
import random
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Request:
    path: str
    headers: dict[str, str]  # lower-case names
    body: bytes
    peer: tuple[str, int]  # one for each connection


@dataclass
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    endless: bool = False  # a body without an end
    drop: bool = False  # take it and answer nothing
    raw: bytes | None = None  # these octets in place of an answer
    wait: threading.Event | None = None  # hang until it is set


Rule = Callable[[Request], Answer]


class Receiver:
    """`rule` says what is answered. Everything that came is in `requests`, in the order in which it came."""

    def __init__(self, rule: Rule | None = None, context: ssl.SSLContext | None = None) -> None:
        self.rule = rule or (lambda _request: Answer())
        self.requests: list[Request] = []
        self.came = threading.Condition()
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.receiver = self
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.tls = context is not None

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http{'s' if self.tls else ''}://{host}:{self.port}{path}"

    def events(self) -> list[dict[str, Any]]:
        """Structured and batched events, in the order in which they were first seen; repeats too."""
        with self.came:
            bodies = [json.loads(request.body) for request in self.requests]
        return list(itertools.chain(*(body if isinstance(body, list) else [body] for body in bodies)))

    def peers(self) -> set[tuple[str, int]]:
        return {request.peer for request in self.requests}

    def wait_for(self, count: int, patience_s: float = 30.0) -> list[Request]:
        """Until so many requests have come."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.requests) >= count, patience_s), (
                f"{len(self.requests)} of {count} requests came"
            )
            return list(self.requests)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


def drops(share: float, seed: int = 7) -> Rule:
    """Take every message and answer some of them with silence."""
    dice, lock = random.Random(seed), threading.Lock()

    def rule(_request: Request) -> Answer:
        with lock:
            return Answer(drop=dice.random() < share)

    return rule


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    receiver: Receiver

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A dispatcher that was killed has closed its connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def do_POST(self) -> None:
        receiver = self.server.receiver
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # whoever sent it was killed meanwhile
            self.close_connection = True
            return
        request = Request(
            self.path, {name.lower(): value for name, value in self.headers.items()}, body, self.client_address
        )
        with receiver.came:
            receiver.requests.append(request)
            receiver.came.notify_all()
        self._answer(receiver.rule(request))

    def _answer(self, answer: Answer) -> None:
        if answer.wait is not None:
            answer.wait.wait(60)
        if answer.raw is not None:
            self.wfile.write(answer.raw)
        if answer.drop or answer.raw is not None:
            self.close_connection = True
            self.connection.close()
            return
        head = {"Content-Length": str(len(answer.body)), **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} Whatever", *(f"{name}: {value}" for name, value in head.items())]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + answer.body)
        while answer.endless:
            self.wfile.write(bytes(65536))

    def log_message(self, format: str, *args: Any) -> None:
        """Not on stderr."""
