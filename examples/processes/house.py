"""What the examples stand on: a PostgreSQL of their own, a real worker, and a mail server that refuses as told."""

from __future__ import annotations

import os
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
from psycopg import sql

from reproq.db.embedded import EmbeddedServer, throwaway

PATIENCE_S = 60
Statement = LiteralString | sql.Composed


class MailServer(socketserver.ThreadingTCPServer):
    """Speaks enough SMTP to refuse the first messages for a while, and to take the others."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, refusals: int) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.refusals = refusals
        self.accepted: list[str] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.server_address[1]}?tls=none"

    def judge(self) -> str:
        with self.lock:
            self.refusals -= 1
            return "451 come back later" if self.refusals >= 0 else "250 go on"


class _Conversation(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self.say("220 example")
        while line := self.rfile.readline().decode().strip():
            word = line.split()[0].upper()
            if word == "DATA":
                self.say("354 write")
                self.server.accepted.append(self.message())
                self.say("250 accepted")
            elif word == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say(self.server.judge() if word == "MAIL" else "250 go on")

    def message(self) -> str:
        lines = []
        while (line := self.rfile.readline().decode()) not in ("", ".\r\n"):
            lines.append(line)
        return "".join(lines)

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class House:
    """The server's addresses, and statements as the application or as the owner."""

    def __init__(self, server: EmbeddedServer, mail: MailServer, worker: subprocess.Popen[bytes]) -> None:
        self.server = server
        self.mail = mail
        self.worker = worker

    def app(self, statement: Statement, *values: object) -> object:
        return _one(self.server.app_dsn(), statement, values)

    def owner(self, statement: Statement, *values: object) -> object:
        return _one(self.server.admin_dsn, statement, values)

    def reproq(self, *arguments: str) -> None:
        print(f"\n$ reproq {' '.join(arguments)}", flush=True)
        environ = _environ(REPROQ_DATABASE_URL=self.server.admin_dsn)
        subprocess.run([sys.executable, "-m", "reproq", *arguments], env=environ, check=True)

    def wait_for_end(self, process: str, number: object) -> None:
        schema, name = process.split(".")
        ended = sql.SQL("select count(*) from {} where {} = %s").format(
            sql.Identifier(schema, f"{name}_task_ended"), sql.Identifier(f"{name}_task_id")
        )
        deadline = time.monotonic() + PATIENCE_S
        while self.owner(ended, number) == 0:
            if time.monotonic() > deadline or self.worker.poll() is not None:
                self.reproq("process", "show", process, str(number))
                sys.exit(f"{process} {number} hasn't ended")
            time.sleep(0.1)


@contextmanager
def house(refusals: int) -> Iterator[House]:
    """A house that is gone afterwards."""
    with throwaway() as server, MailServer(refusals) as mail:
        threading.Thread(target=mail.serve_forever, daemon=True).start()
        server.install(say=lambda _line: None)
        with _worker(server, mail) as worker:
            yield House(server, mail, worker)
        mail.shutdown()


@contextmanager
def _worker(server: EmbeddedServer, mail: MailServer) -> Iterator[subprocess.Popen[bytes]]:
    environ = _environ(
        REPROQ_DATABASE_URL=server.worker_dsn,
        REPROQ_EMAIL_PROVIDER="smtp",
        REPROQ_SMTP_URL=mail.url,
        REPROQ_EMAIL_FROM="news@example.org",
        REPROQ_LOG_LEVEL="warning",
    )
    command = [sys.executable, "-m", "reproq", "worker", "--no-migrate", "--processes", "1"]
    worker = subprocess.Popen(command, env=environ)
    try:
        yield worker
    finally:
        worker.terminate()
        worker.wait()


def _environ(**settings: str) -> dict[str, str]:
    """Without the user's own settings, which may be for another worker."""
    ours = ("REPROQ_", "WORKER_", "DATABASE_URL", "PG")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        "REPROQ_CONFIG": os.devnull,
        **settings,
    }


def _one(dsn: str, statement: Statement, values: tuple[object, ...]) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement, values)
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None
