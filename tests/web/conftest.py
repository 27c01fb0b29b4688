"""A gateway as its user runs it: `reproq serve` in a process of its own, with TLS, on a port that the system chose."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from reproq.db.connect import as_sql, connect
from reproq.queue.tokens import SCOPES
from tests.conftest import Database
from tests.worker.harness import ROOT, wait_until

TICKET_KEY = "a-ticket-key-for-tests-0123456789abcdef"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Gateway:
    """The process, its log, and a plain client for it."""

    def __init__(
        self, database: Database, folder: Path, authority: trustme.CA, flags: list[str], **environ: str
    ) -> None:
        self.database = database
        self.err = folder / "gateway.err"
        leaf = authority.issue_cert("localhost", "127.0.0.1")
        leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "gateway.pem"))
        self.context = ssl.create_default_context()
        authority.configure_trust(self.context)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("REPROQ_", "DATABASE_URL"))}
        with self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "reproq", "serve", "--listen", "127.0.0.1:0",
                 "--tls-cert", str(folder / "gateway.pem"), *flags],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True,
                env=clean | {"REPROQ_DATABASE_URL": database.app_dsn, "REPROQ_TICKET_KEY": TICKET_KEY} | environ,
            )  # fmt: skip
        self.token = self.scraper = ""
        self.pool = ThreadPoolExecutor(64)
        self.open: list[ssl.SSLSocket] = []

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.err.read_text().splitlines() if line.startswith("{")]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] == name]

    def await_event(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.events(name)) >= count or self.process.poll() is not None, name)
        found = self.events(name)
        assert len(found) >= count, self.err.read_text()
        return found

    @property
    def port(self) -> int:
        return int(self.await_event("gateway_started")[0]["url"].rpartition(":")[2])

    def connect(self, timeout: float = 60) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("localhost", self.port, timeout=timeout, context=self.context)

    def ask(self, method: str, path: str, body: object = None, *, token: str | None = None, **headers: str) -> Answer:
        """One request on a connection of its own. `token=""` sends none."""
        connection = self.connect()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token != "":
            sent.setdefault("Authorization", f"Bearer {token or self.token}")
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Answer:
        return self.ask("GET", path, **more)

    def post(self, path: str, body: object = None, **more: Any) -> Answer:
        return self.ask("POST", path, body, **more)

    def make_token(self, *scopes: str, name: str = "test", **limits: object) -> str:
        """As `reproq tokens create` does. `limits`: queues, prefixes, expires_in."""
        token = f"rq_{secrets.token_urlsafe(32)}"
        named = "".join(f", {limit} => %s" for limit in limits)
        self.database.execute(
            f"select queues.create_token(%s, sha256(convert_to(%s, 'UTF8')), %s{named})",
            name, token, list(scopes or SCOPES), *limits.values(),
        )  # fmt: skip
        return token

    def enqueue(self, task_type: str = "shop.pay", queue_name: str = "default", **payload: object) -> int:
        """As the application does, by the gateway's login."""
        connection = self.database.connect("app")
        sql = "select queues.enqueue(%s, %s::jsonb, queue_name => %s)"
        ((number,),) = connection.execute(sql, [task_type, json.dumps(payload), queue_name]).fetchall()
        return int(str(number))

    def finish(self, number: int, result: object = None) -> float:
        """What a worker does, in short. Answers when it was committed."""
        self.database.execute(
            "update queues.task_runs set status = 'SUCCESSFUL', result_json = %s::jsonb, completed_at = now(),"
            " claim_no = claim_no + 1, started_at = now(), leased_until = null where id = %s",
            json.dumps(result), number,
        )  # fmt: skip
        return time.monotonic()

    def claim(self, number: int) -> None:
        self.database.execute(
            "update queues.task_runs set status = 'RUNNING', claim_no = claim_no + 1, worker_id = 'w/1/x',"
            " leased_until = now() + interval '1 h' where id = %s", number,
        )  # fmt: skip

    def sessions(self, name: str = "reproq serve: waiting") -> int:
        sql = "select count(*) from pg_stat_activity where datname = %s and application_name = %s"
        ((count,),) = self.database.execute(sql, self.database.name, name)
        return int(count)

    def counted(self, name: str) -> float:
        """What the gateway counts of itself."""
        if not self.scraper:
            self.scraper = self.make_token("metrics:read", name="scraper")
        lines = self.get("/metrics", token=self.scraper).body.decode().splitlines()
        return float(next(line for line in lines if line.startswith(f"reproq_gateway_{name} ")).split()[1])

    def held(self, *numbers: int, wait: int = 60) -> list[ssl.SSLSocket]:
        """Connections that wait, each for one task; the gateway knows of all of them."""
        for number in numbers:
            plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            self.open.append(self.context.wrap_socket(plain, server_hostname="localhost"))
            self.open[-1].sendall(
                f"GET /v1/tasks/{number}?wait={wait} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                f"Authorization: Bearer {self.token}\r\n\r\n".encode()
            )
        self.await_waiting(len(numbers))
        return self.open[-len(numbers) :]

    def await_waiting(self, number: int) -> None:
        wait_until(lambda: self.counted("waiting") >= number, "all of them wait")

    def later(self, path: str, **more: Any) -> Future[tuple[Answer, float]]:
        """Ask in a thread; the answer comes with its moment."""
        return self.pool.submit(lambda: (self.get(path, **more), time.monotonic()))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        for waiter in self.open:
            waiter.close()
        self.pool.shutdown(wait=False)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@contextmanager
def away(database: Database) -> Iterator[None]:
    """Nobody can connect to the database, and nobody is connected."""
    with connect(database.server.dsn("postgres", "postgres"), name="test") as elsewhere:
        elsewhere.execute(as_sql(f"alter database {database.name} allow_connections false"))
        elsewhere.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [database.name])
        try:
            yield
        finally:
            elsewhere.execute(as_sql(f"alter database {database.name} allow_connections true"))


Serve = Callable[..., Gateway]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def serve(database: Database, tmp_path: Path, authority: trustme.CA) -> Iterator[Serve]:
    """Start gateways; each must end with status 0 and without a bug in its log, unless the test ended it."""
    started: list[Gateway] = []

    def start(*flags: str, **environ: str) -> Gateway:
        folder = tmp_path / f"gateway{len(started)}"
        folder.mkdir()
        started.append(Gateway(database, folder, authority, list(flags), **environ))
        return started[-1]

    yield start
    for gateway in started:
        gateway.stop()
        assert gateway.events("internal_error") == [], gateway.err.read_text()
        assert "Traceback" not in gateway.err.read_text()


@pytest.fixture
def gateway(serve: Serve) -> Gateway:
    """A gateway with a token for everything."""
    made = serve()
    made.token = made.make_token()
    return made
