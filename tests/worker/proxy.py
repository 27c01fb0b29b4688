"""A TCP proxy between a worker and its server, which can go deaf, cut lines, or swallow the answer to one statement."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field

from tests.conftest import Database


@dataclass
class Line:
    near: socket.socket
    far: socket.socket
    swallowing: bool = False
    asked: bytes = b""
    threads: list[threading.Thread] = field(default_factory=list)

    def close(self) -> None:
        self.cut()
        for thread in self.threads:
            thread.join(10)
        for end in (self.near, self.far):
            end.close()

    def cut(self) -> None:
        for end in (self.near, self.far):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Proxy:
    """`swallow(b"queues.finish")`: the next answer to such a statement is dropped and its line is cut."""

    def __init__(self, database: Database) -> None:
        self._target = database.server.port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.dsn = database.worker_dsn.replace(f":{self._target}/", f":{self.port}/")
        self._lines: list[Line] = []
        self._all: list[Line] = []
        self._wanted = b""
        self._lock = threading.Lock()
        self._closed = False
        self._deaf = threading.Event()
        self.swallowed = threading.Event()
        self.refusing = False
        self.only = b""  # lines whose first words don't hold this are turned away
        self.turned_away = 0
        self.asked = 0
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()

    def swallow(self, statement: bytes) -> None:
        self.swallowed.clear()
        with self._lock:
            self._wanted = statement

    def cut(self) -> None:
        """Every line that is open now."""
        with self._lock:
            lines, self._lines = self._lines, []
        for line in lines:
            line.cut()

    def go_deaf(self) -> None:
        """From now on nothing passes and nobody is told."""
        self._deaf.set()

    def hear_again(self) -> None:
        self._deaf.clear()
        self.cut()

    def close(self) -> None:
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._server.join(10)
        self._listener.close()
        for line in self._all:
            line.close()

    def _serve(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                near.close()
                continue
            self._open(near)

    def _open(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        line = Line(near, far)
        with self._lock:
            self._lines.append(line)
        self._all.append(line)
        for pump in (self._ask, self._answer):
            line.threads.append(threading.Thread(target=pump, args=(line,), daemon=True))
            line.threads[-1].start()

    def _ask(self, line: Line) -> None:
        try:
            is_new = True
            while data := line.near.recv(65536):
                if self._deaf.is_set():
                    continue
                if is_new and self.only not in data:
                    self.turned_away += 1
                    break
                is_new = False
                with self._lock:
                    self.asked += 1
                    line.asked = (line.asked + data)[-200_000:]
                    if self._wanted and self._wanted in line.asked:
                        self._wanted, line.swallowing = b"", True
                    line.asked = line.asked[-100:]
                line.far.sendall(data)
        except OSError:
            pass
        line.cut()

    def _answer(self, line: Line) -> None:
        """What is swallowed was answered: the statement has been committed when its ReadyForQuery arrives."""
        try:
            while data := line.far.recv(65536):
                if self._deaf.is_set():
                    continue
                if line.swallowing:
                    if data.endswith(b"Z\x00\x00\x00\x05I"):
                        break
                    continue
                line.near.sendall(data)
        except OSError:
            pass
        line.cut()
        if line.swallowing:
            self.swallowed.set()
