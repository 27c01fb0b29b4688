"""The process around the gateway: socket, TLS, signals, start and stop.

Start: open files allowed, database seen, socket bound, gateway opened, listening, READY. Stop, at the first signal: no
new connection, everybody who waits is answered, STOPPING; at the second: at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import ssl
from asyncio import sslproto
from collections.abc import Iterator
from types import FrameType
from typing import Any

import uvicorn

from reproq import log, signals
from reproq.config import GatewaySettings, SettingsError
from reproq.log import Event
from reproq.notify import notify
from reproq.web import protocol
from reproq.web.door import Door
from reproq.web.gateway import Gateway
from reproq.web.routes import ROUTES

HANDSHAKE_S = 10.0
IDLE_S = 30
STOP_S = 10
BACKLOG = 4096
_SPARE_FILES = 200
# asyncio keeps a buffer of this size for every TLS connection: by default 256 KiB, half a GiB for 2,000 who wait.
sslproto.SSLProtocol.max_size = 32 * 1024


def serve(settings: GatewaySettings, dsn: str) -> int:
    """Run until a signal; 0 when it stopped as asked."""
    _allow_files(settings.max_waiters + _SPARE_FILES)
    context = _tls(settings)
    with contextlib.closing(_bound(settings)) as listener:
        server = Server(Gateway.of(settings, dsn), listener, context)
        asyncio.run(server.serve(sockets=[listener]))
    return 0


class Server(uvicorn.Server):
    def __init__(self, gateway: Gateway, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        config = uvicorn.Config(
            Door(gateway, ROUTES), lifespan="off", loop="asyncio", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=IDLE_S, timeout_graceful_shutdown=STOP_S,
            **protocol.settings(),
        )  # fmt: skip
        super().__init__(config)
        self._gateway = gateway
        self._listener = listener
        self._context = context
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_say_bug)
        await self._gateway.open()
        server = await self._loop.create_server(
            self._connection,
            sock=self._listener,
            backlog=BACKLOG,
            ssl=self._context,
            ssl_handshake_timeout=HANDSHAKE_S if self._context else None,
        )
        self.servers = [server]
        self.started = True
        log.say(Event.GATEWAY_STARTED, f"listening on {self._url()}", url=self._url())
        notify("READY=1")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        notify("STOPPING=1")
        self._gateway.end()
        await super().shutdown(sockets)
        await self._gateway.close()
        log.say(Event.GATEWAY_STOPPED, "stopped")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As a worker: all that ask to stop do, and the first one isn't raised again at the end."""
        before = {number: signal.signal(number, self.handle_exit) for number in signals.stopping()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

    def _connection(self) -> protocol.GatewayProtocol:
        return protocol.GatewayProtocol(self.config, self.server_state, self.lifespan.state, self._loop)

    def _url(self) -> str:
        host, port = self._listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self._context else 'http'}://{shown}:{port}"


def _bound(settings: GatewaySettings) -> socket.socket:
    host, port = settings.listen
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, proto)
    except OSError as problem:
        raise SettingsError(f"can't listen on {host}:{port}: {problem.strerror}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as problem:
        listener.close()
        raise SettingsError(f"can't listen on {host}:{port}: {problem.strerror}; choose another --listen") from None
    return listener


def _tls(settings: GatewaySettings) -> ssl.SSLContext | None:
    if settings.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=lambda: b"")
    except (OSError, ValueError) as problem:
        key = settings.tls_key or settings.tls_cert
        reason = getattr(problem, "reason", None) or "not PEM, or encrypted"
        raise SettingsError(f"--tls-cert {settings.tls_cert} and --tls-key {key} don't fit: {reason}") from None
    return context


def _allow_files(wanted: int) -> None:
    """Each connection is an open file, and most systems start programs with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
        if allowed < wanted:
            text = f"only {allowed} open files are allowed, too few for --max-waiters: raise `ulimit -n`"
            log.say(Event.OPEN_FILES_SHORT, text, logging.WARNING)


def _say_bug(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    problem = context.get("exception")
    if isinstance(problem, OSError):  # a connection that broke; ssl's errors are of this kind too
        return
    log.say(Event.INTERNAL_ERROR, f"{context.get('message')}: {problem!r}", logging.ERROR)
