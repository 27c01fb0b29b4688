"""How long an answer takes when thousands wait: python -m bench.waiters [--waiters 2000] [--pace 50] [--burst 100]

A throw-away PostgreSQL, a gateway with TLS, and a connection for each waiter, held open by a task of its own. Then
tasks are finished: one by one at a pace, some in a burst, at last all the rest at once. Measured from the commit of the
finish to the last byte of the answer, on the machine that does all of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from reproq.bench.procfs import cpu_s, rss_mb
from reproq.client import Client
from reproq.db.connect import Connection, as_sql, connect
from reproq.db.embedded import EmbeddedServer, throwaway

_FINISH = """
    update queues.task_runs set status = 'SUCCESSFUL', result_json = '{"done": true}', claim_no = 1, started_at = now(),
           completed_at = clock_timestamp() where id = any(%s)"""
_CONNECTIONS = """
    select application_name, count(*) from pg_stat_activity
    where application_name like 'reproq serve%' group by 1 order by 1"""


@dataclass
class Seen:
    """What came out."""

    waiters: int = 0
    connections: dict[str, int] = field(default_factory=dict)
    cpu_while_silent: float = 0.0
    rss_mib: float = 0.0
    ms: dict[str, list[float]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        names = ", ".join(f"{name}: {count}" for name, count in self.connections.items())
        yield f"{self.waiters} waiters; database connections: {names}"
        yield f"while nothing happens: {self.cpu_while_silent:.1%} of a core, {self.rss_mib:.0f} MiB"
        for name, found in self.ms.items():
            if found:
                yield f"{name}: {len(found)} answers, ms after the commit: {quantiles(found)}"


def quantiles(found: list[float]) -> str:
    ordered = sorted(found)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    return f"p50 {at(0.5):.1f}, p99 {at(0.99):.1f}, max {ordered[-1]:.1f}"


class Waiter:
    """One TLS connection that waits for one task."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.answered_at = 0.0
        self.status = 0
        self._reader: asyncio.StreamReader | None = None

    async def open(self, port: int, context: ssl.SSLContext, token: str) -> None:
        self._reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )
        request = (
            f"GET /v1/tasks/{self.number}?wait=60 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        writer.write(request.encode())
        await writer.drain()
        self._writer = writer

    async def answer(self) -> None:
        assert self._reader is not None
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = json.loads(await self._reader.readexactly(length))
        self.answered_at = time.monotonic()
        self.status = int(head.split()[1])
        assert body["id"] == self.number
        self._writer.transport.abort()  # at once: a polite end would outlive the loop


@contextmanager
def gateway(server: EmbeddedServer, folder: Path, waiters: int) -> Iterator[tuple[int, int, ssl.SSLContext, str]]:
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost")
    leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "gateway.pem"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("REPROQ_")}
    made = subprocess.run(
        [sys.executable, "-m", "reproq", "tokens", "create", "bench", "--scope", "tasks:read"],
        env=environ | {"REPROQ_DATABASE_URL": server.admin_dsn}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    flags = ["--tls-cert", str(folder / "gateway.pem"), "--max-waiters", str(waiters + 10)]
    command = [sys.executable, "-m", "reproq", "serve", "--listen", "127.0.0.1:0", *flags]
    with (folder / "gateway.log").open("wb") as errors:
        process = subprocess.Popen(command, env=environ | {"REPROQ_DATABASE_URL": server.app_dsn()}, stderr=errors)
    try:
        yield process.pid, _port(folder / "gateway.log", process), context, made.stdout.strip()
    finally:
        process.terminate()
        process.wait()


def _port(path: Path, process: subprocess.Popen[bytes]) -> int:
    while process.poll() is None:
        for line in path.read_text().splitlines():
            if '"gateway_started"' in line:
                return int(json.loads(line)["url"].rpartition(":")[2])
        time.sleep(0.05)
    raise SystemExit(path.read_text())


async def measure(
    conn: Connection, pid: int, port: int, context: ssl.SSLContext, token: str, ids: list[int],
    singly: int, pace: float, burst: int,
) -> Seen:  # fmt: skip
    seen = Seen(waiters=len(ids))
    waiters = {number: Waiter(number) for number in ids}
    gate = asyncio.Semaphore(50)

    async def open_one(waiter: Waiter) -> None:
        async with gate:
            await waiter.open(port, context, token)

    await asyncio.gather(*(open_one(waiter) for waiter in waiters.values()))
    answers = {number: asyncio.create_task(waiter.answer()) for number, waiter in waiters.items()}
    await asyncio.sleep(1)
    await _silence(conn, pid, seen)
    order = random.sample(ids, len(ids))
    single, together, rest = order[:singly], order[singly : singly + burst], order[singly + burst :]
    seen.ms["one by one"] = await _paced(conn, waiters, answers, single, pace)
    seen.ms["in a burst"] = await _finished(conn, waiters, answers, together)
    seen.ms["all the rest at once"] = await _finished(conn, waiters, answers, rest)
    assert {waiter.status for waiter in waiters.values()} == {200}
    return seen


async def _silence(conn: Connection, pid: int, seen: Seen) -> None:
    cpu, began = cpu_s(pid), time.monotonic()
    await asyncio.sleep(3)
    seen.cpu_while_silent = (cpu_s(pid) - cpu) / (time.monotonic() - began)
    seen.rss_mib = rss_mb(pid)
    seen.connections = {str(name): int(str(count)) for name, count in conn.execute(_CONNECTIONS).fetchall()}


async def _paced(
    conn: Connection, waiters: dict[int, Waiter], answers: dict[int, asyncio.Task[None]], order: list[int], pace: float
) -> list[float]:
    found: list[asyncio.Task[list[float]]] = []
    for number in order:
        found.append(asyncio.create_task(_finished(conn, waiters, answers, [number])))
        await asyncio.sleep(random.uniform(0.5, 1.5) / pace)
    return [ms for one in await asyncio.gather(*found) for ms in one]


async def _finished(
    conn: Connection, waiters: dict[int, Waiter], answers: dict[int, asyncio.Task[None]], ids: list[int]
) -> list[float]:
    done = await asyncio.to_thread(_commit, conn, ids)  # on the loop it would keep answers from being read
    await asyncio.gather(*(answers[number] for number in ids))
    return [(waiters[number].answered_at - done) * 1000 for number in ids]


def _commit(conn: Connection, ids: list[int]) -> float:
    conn.execute(as_sql(_FINISH), [ids])
    return time.monotonic()


def run(waiters: int, singly: int, pace: float, burst: int) -> Seen:
    with throwaway() as server, tempfile.TemporaryDirectory() as name:
        server.install(say=lambda _: None)
        with Client(server.app_dsn()) as client:
            ids = client.enqueue_many("bench.wait", [{}] * waiters)
        with connect(server.admin_dsn, name="bench") as conn, gateway(server, Path(name), waiters) as served:
            pid, port, context, token = served
            return asyncio.run(measure(conn, pid, port, context, token, ids, singly, pace, burst))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--waiters", type=int, default=2000)
    parser.add_argument("--singly", type=int, default=400, help="so many are finished one by one")
    parser.add_argument("--pace", type=float, default=50, help="finishes a second, one by one")
    parser.add_argument("--burst", type=int, default=100, help="then so many at once, and at last all the rest")
    given = parser.parse_args()
    for line in run(given.waiters, given.singly, given.pace, given.burst).lines():
        print(line)  # noqa: T201 - this is what it is for


if __name__ == "__main__":
    main()
