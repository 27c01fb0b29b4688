"""A TCP proxy before the database, in the test's process, that does what networks do.

healthy()    passes everything on          black_hole()  swallows everything, in silence
cut()        closes what is open           delay(s)      passes each piece on so much later
refuse(…)    closes instead of passing a statement on
swallow(…)   lets a statement reach the server, waits for the server's whole answer, and closes without passing it on
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_CHUNK = 1 << 16
_READY = b"Z\x00\x00\x00\x05I"
"""ReadyForQuery of a session outside of a transaction: whatever was to be committed is."""


class _Link:
    """One client's connection and its twin to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.swallowing = False
        self.tail = b""

    def close(self) -> None:
        for writer in (self.client, self.server):
            writer.transport.abort()


class Proxy:
    def __init__(self, dsn: str) -> None:
        self._target = urlsplit(dsn)
        self._links: set[_Link] = set()
        self._flowing = asyncio.Event()
        self._delay_s = 0.0
        self._victim = b""
        self._refused = b""
        self._chance = 0.0
        self._random = random.Random(0)
        self.swallowed = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._run(self._listen())
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def dsn(self) -> str:
        """The same address, by way of the proxy."""
        login = self._target.netloc.rpartition("@")[0]
        return urlunsplit(self._target._replace(netloc=f"{login}@127.0.0.1:{self.port}"))

    @property
    def connections(self) -> int:
        return len(self._links)

    def healthy(self) -> None:
        """Passes on what comes from now; what came into the black hole is gone with its connections."""
        self._call(self._heal)

    def black_hole(self) -> None:
        self._call(self._flowing.clear)

    def cut(self) -> None:
        self._call(self._cut)

    def delay(self, seconds: float) -> None:
        self._delay_s = seconds

    def swallow(self, statement: bytes, chance: float = 1.0, seed: int = 0) -> None:
        """From now on the answer to such a statement is lost with this probability."""
        self._victim, self._chance, self._random = statement, chance, random.Random(seed)

    def refuse(self, statement: bytes) -> None:
        """From now on such a statement never reaches the server: its connection ends instead."""
        self._refused = statement

    def close(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def _call(self, function: Callable[[], None]) -> None:
        async def called() -> None:
            function()

        self._run(called())

    async def _listen(self) -> asyncio.Server:
        self._flowing.set()
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    def _heal(self) -> None:
        if not self._flowing.is_set():
            self._cut()
        self._flowing.set()

    def _cut(self) -> None:
        for link in list(self._links):
            link.close()

    async def _end(self) -> None:
        self._server.close()
        self._cut()
        self._flowing.set()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.wait(others, timeout=2) if others else None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        try:
            server_reader, server = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:  # the server is away: so are we
            writer.transport.abort()
            return
        link = _Link(writer, server)
        self._links.add(link)
        try:
            await asyncio.gather(self._to_server(reader, link), self._to_client(server_reader, link))
        except OSError:
            pass
        finally:
            link.close()
            self._links.discard(link)

    async def _to_server(self, reader: asyncio.StreamReader, link: _Link) -> None:
        while data := await self._piece(reader):
            if self._refused and self._refused in data:
                break
            if self._victim and self._victim in link.tail + data and self._random.random() < self._chance:
                link.swallowing = True
            link.tail = data[1 - len(self._victim) :] if len(self._victim) > 1 else b""
            link.server.write(data)
            await link.server.drain()
        link.close()

    async def _to_client(self, reader: asyncio.StreamReader, link: _Link) -> None:
        seen = b""
        while data := await self._piece(reader):
            if link.swallowing:
                seen = (seen + data)[-64:]
                if _READY in seen:
                    self.swallowed += 1
                    break
                continue
            link.client.write(data)
            await link.client.drain()
        link.close()

    async def _piece(self, reader: asyncio.StreamReader) -> bytes:
        data = await reader.read(_CHUNK)
        if data and self._delay_s:
            await asyncio.sleep(self._delay_s)
        await self._flowing.wait()
        return data
