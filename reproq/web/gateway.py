"""Everything that one gateway has, for the doors in routes.py."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from reproq.config import GatewaySettings
from reproq.web.callers import Callers
from reproq.web.counts import Counts
from reproq.web.store import Store
from reproq.web.watch import Watch


@dataclass
class Gateway:
    settings: GatewaySettings
    store: Store
    watch: Watch
    callers: Callers
    counts: Counts

    @classmethod
    def of(cls, settings: GatewaySettings, dsn: str) -> Gateway:
        counts, store = Counts(), Store(dsn)
        return cls(settings, store, Watch(dsn, store, counts), Callers(store, settings.ticket_keys, counts), counts)

    async def open(self) -> None:
        await self.store.open()
        self.watch.start()

    async def close(self) -> None:
        await self.watch.stop()
        await self.store.close()

    @property
    def ending(self) -> bool:
        return self.watch.ending

    def end(self) -> None:
        """Nobody is kept waiting any more; who asks now is sent elsewhere."""
        self.watch.end()


def gateway_of(request: Request) -> Gateway:
    gateway = request.scope["gateway"]
    assert isinstance(gateway, Gateway)
    return gateway
