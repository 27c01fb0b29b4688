"""/livez, /readyz and /metrics of a worker, answered by a thread of their own: it answers also when the loop is stuck.

It reads what others wrote, and asks the loop for nothing. It doesn't log: a loop that is stuck may hold the log's lock.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable

import orjson

from reproq.config import SettingsError
from reproq.metrics import Family, chosen_type, render
from reproq.runner.health import Health

_MOST_BYTES = 16 * 1024
_PATIENCE_S = 5.0
_MOST_AT_ONCE = 64
_STATUS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"

Answer = tuple[int, str, bytes]


class Probe:
    def __init__(self, address: tuple[str, int], health: Health, families: Callable[[], Iterable[Family]]) -> None:
        self._health = health
        self._families = families
        self._socket = _bound(address)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = asyncio.Event()
        self._listens = threading.Event()
        self._open = 0
        self._thread = threading.Thread(target=asyncio.run, args=(self._listen(),), name="metrics", daemon=True)

    @property
    def address(self) -> str:
        """Where it listens, with the port that was found for port 0."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self) -> None:
        self._thread.start()
        self._listens.wait(5)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(timeout=2)
        self._socket.close()

    async def _listen(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._serve, sock=self._socket, limit=_MOST_BYTES)
        self._listens.set()
        await self._closing.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection; who is slow, or one too many, is cut off."""
        self._open += 1
        try:
            if self._open <= _MOST_AT_ONCE:
                async with asyncio.timeout(_PATIENCE_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(
                        _response(*self._answer(head.decode("latin-1")), with_body=not head.startswith(b"HEAD"))
                    )
                    await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            writer.close()

    def _answer(self, head: str) -> Answer:
        first, *fields = head.split("\r\n")
        method, _, rest = first.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if not rest.partition(" ")[2].startswith("HTTP/1."):
            return 400, _TEXT, b"not HTTP/1\n"
        if method not in ("GET", "HEAD"):
            return 405, _TEXT, b"only GET and HEAD\n"
        if path == "/livez":
            return self._livez()
        if path == "/readyz":
            return 200 if self._health.ready else 503, _JSON, orjson.dumps(self._health.report()) + b"\n"
        if path == "/metrics":
            accept = next((field[7:] for field in fields if field.lower().startswith("accept:")), "")
            kind = chosen_type(accept)
            return 200, kind, render(self._families(), kind)
        return 404, _TEXT, b"here are /livez, /readyz and /metrics\n"

    def _livez(self) -> Answer:
        if self._health.alive:
            return 200, _TEXT, b"ok\n"
        return 503, _TEXT, f"the loop has not turned for {self._health.silent_s:.1f} s\n".encode()


def _bound(address: tuple[str, int]) -> socket.socket:
    host, port = address
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server(address, family=family, backlog=_MOST_AT_ONCE)
    except OSError as exc:
        raise SettingsError(
            f"can't listen on {host}:{port} for metrics: {exc.strerror or exc}; give --metrics-address another one"
        ) from None


def _response(status: int, kind: str, body: bytes, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_STATUS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
