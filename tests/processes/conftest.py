"""The mail processes as an app, a worker and an administrator see them, without any provider."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection, as_sql, connect
from reproq.db.embedded import EmbeddedServer
from tests.conftest import Database

WORKER = "w/1/boot"
_EMPTY = """
    set session_replication_role = replica;  -- no trigger refuses
    do $$
    declare
        held regclass;
    begin
        for held in
            select c.oid from pg_class c
            where c.relkind = 'r' and c.relname not in ('setting', 'settings', 'leader')
              and (c.relnamespace in ('comms'::regnamespace, 'queues'::regnamespace) or c.relname = 'open_process')
        loop
            execute format('delete from %s', held);
        end loop;
    end $$;
    delete from comms.setting;
    insert into comms.setting default values;
    update queues.leader set until = '-infinity'"""


@dataclass(frozen=True)
class Channel:
    """What differs between email and SMS."""

    name: str
    send: str

    @property
    def root(self) -> str:
        return f"send_{self.name}_task"

    @property
    def id_name(self) -> str:
        return f"{self.root}_id"


EMAIL = Channel("email", "comms.send_email('ada@example.org', 'Hello', text_body => 'Hi'{})")
SMS = Channel("sms", "comms.send_sms('+4917012345678', 'Hi'{})")


@dataclass(frozen=True)
class Attempt:
    """A claimed channel task, with its fence."""

    id: int
    claim_no: int
    payload: dict[str, Any]


class Post:
    def __init__(self, database: Database, channel: Channel) -> None:
        self.database = database
        self.channel = channel
        self.admin = database.connect()
        self.app = database.connect("app")
        self.worker = database.connect("worker")
        self.about = {"provider": "test", "resolves_by": "park"}
        self.hurry()

    def rows(self, statement: str, *args: object, by: Connection | None = None) -> list[dict[str, Any]]:
        with (by or self.admin).cursor(row_factory=dict_row) as cursor:
            cursor.execute(as_sql(statement), args or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *args: object, by: Connection | None = None) -> Any:
        ((value,),) = (row.values() for row in self.rows(statement, *args, by=by))
        return value

    def hurry(self) -> None:
        """No back-off: what a test does next is due at once."""
        self.rows("update comms.setting set backoff_base = '1 microsecond', backoff_cap = '1 microsecond'")

    def send(self, more: str = "", by: Connection | None = None) -> int:
        """Start a process; `more` are further arguments: ", max_attempts => 2"."""
        return int(self.value(f"select {self.channel.send.format(more)}", by=by or self.app))

    def supervise(self, send_id: int) -> dict[str, Any]:
        """The next run of the supervisor, now instead of when it is due, as a worker runs it."""
        ids = Jsonb({self.channel.id_name: send_id})
        self.rows(
            "update queues.task_runs set run_after = now() where task_type = 'db_function' and payload_json @> %s", ids
        )
        rows = self.rows(
            "select * from queues.claim(%s, null, array['db_function'], '30 s', 1, null, null)",
            WORKER, by=self.worker,
        )  # fmt: skip
        if not rows:  # it has ended, and nobody supervises it
            return self.run_supervisor(send_id)
        (row,) = rows
        assert row["payload_json"][self.channel.id_name] == send_id
        sql = "select internal.run_task(%s, %s, %s, %s)"
        answer = self.value(sql, WORKER, row["id"], row["claim_no"], Jsonb(row["payload_json"]), by=self.worker)
        assert answer["success"], answer
        return dict(answer["payload"])

    def run_supervisor(self, send_id: int, by: Connection | None = None) -> dict[str, Any]:
        """The function alone, beside its chain."""
        sql = f"select internal.run_function('comms.send_{self.channel.name}_supervisor', %s)"
        answer = self.value(sql, Jsonb({self.channel.id_name: send_id}), by=by or self.worker)
        assert answer["success"], answer
        return dict(answer["payload"])

    def take(self) -> Attempt:
        """Claim the one attempt that waits."""
        (row,) = self.rows(
            "select id, claim_no, payload_json from queues.claim(%s, null, array[%s], '30 s', 5, null, null)",
            WORKER, self.channel.name, by=self.worker,
        )  # fmt: skip
        return Attempt(row["id"], row["claim_no"], row["payload_json"])

    def begin(self, attempt: Attempt) -> dict[str, Any]:
        return dict(self._channel("begin_channel", attempt))

    def succeed(self, attempt: Attempt, number: str = "m1") -> dict[str, Any]:
        """Provider accepted, answer kept, handler run, task finished."""
        answer = {"provider": "test", "provider_message_id": number}
        self.keep(attempt, answer)
        outcome = self._channel("channel_succeeded", attempt, Jsonb(answer))
        self.finish(attempt, True)
        return dict(outcome)

    def keep(self, attempt: Attempt, answer: dict[str, Any]) -> str:
        sql = "select queues.channel_result(%s, %s, %s, %s)"
        return str(self.value(sql, attempt.id, attempt.claim_no, Jsonb(answer), WORKER, by=self.worker))

    def fail(self, attempt: Attempt, kind: str = "provider_refused", **error: object) -> dict[str, Any]:
        document = {"kind": kind, "message": "451 later", "permanent": False, "retry_after_s": None} | error
        outcome = self._channel("channel_failed", attempt, Jsonb(document), kind)
        self.finish(attempt, False)
        return dict(outcome)

    def record(self, what: str, attempt: Attempt, **told: object) -> dict[str, Any]:
        """Call a recording handler as the worker of this attempt does."""
        values = (Jsonb(attempt.payload), WORKER, attempt.id, attempt.claim_no, Jsonb(self.about))
        original = self.value("select internal.for_handlers(%s, %s, %s, %s, %s)", *values)
        name = f"comms.record_{self.channel.name}_{what}"
        document = Jsonb({"original_payload": original, **told})
        return dict(self.value("select internal.run_function(%s, %s)", name, document, by=self.worker))

    def finish(self, attempt: Attempt, success: bool) -> None:
        outcome: dict[str, Any] = {"id": attempt.id, "claim_no": attempt.claim_no, "success": success}
        outcome |= {} if success else {"error": "it failed", "kind": "provider_refused"}
        self.rows("select queues.finish(%s, %s)", WORKER, Jsonb([outcome]), by=self.worker)

    def die(self, attempt: Attempt) -> None:
        """Its worker is gone, and the lease has run out."""
        self.rows(
            "update queues.task_runs set leased_until = now() - interval '1 s', started_at = now() where id = %s",
            attempt.id,
        )
        self.rows("select internal.reclaim('-infinity')")

    def _channel(self, function: str, attempt: Attempt, *more: object) -> Any:
        values = (WORKER, attempt.id, attempt.claim_no, Jsonb(attempt.payload), Jsonb(self.about), *more)
        places = ", ".join(["%s"] * len(values))
        return self.value(f"select internal.{function}({places})", *values, by=self.worker)

    def facts(self, kind: str) -> list[dict[str, Any]]:
        return self.rows(f"select * from comms.{self.channel.root}_{kind} order by created_at")

    def count(self, kind: str) -> int:
        return len(self.facts(kind))

    def ended(self, send_id: int) -> tuple[str, str | None] | None:
        found = [(f["outcome"], f["reason"]) for f in self.facts("ended") if f[self.channel.id_name] == send_id]
        return found[0] if found else None

    def status(self, send_id: int, by: Connection | None = None) -> dict[str, Any]:
        return dict(self.value(f"select comms.send_{self.channel.name}_status(%s)", send_id, by=by or self.app))

    def chain(self) -> list[dict[str, Any]]:
        """Supervisors that wait."""
        return self.rows(
            "select *, run_after - now() as due_in from queues.task_runs where task_type = 'db_function'"
            " and status in ('PENDING', 'RETRYING') and deleted_at is null order by id"
        )

    def close(self) -> None:
        for connection in (self.admin, self.app, self.worker):
            connection.close()


@pytest.fixture(scope="session")
def shared_databases(migrated: Callable[[EmbeddedServer], None]) -> Callable[[EmbeddedServer], str]:
    made: dict[int, str] = {}

    def get(server: EmbeddedServer) -> str:
        if server.port not in made:
            migrated(server)
            made[server.port] = f"processes_{threading.get_native_id()}"
            with connect(server.dsn("postgres", "postgres"), name="test") as conn:
                conn.execute(as_sql(f"create database {made[server.port]} template reproq"))
        return made[server.port]

    return get


@pytest.fixture
def emptied(server: EmbeddedServer, shared_databases: Callable[[EmbeddedServer], str]) -> Iterator[Database]:
    """A database that the tests of this folder share, without any rows: facts refuse to go otherwise."""
    database = Database(server, shared_databases(server))
    database.connect().execute(as_sql(_EMPTY))
    yield database
    database.close()


@pytest.fixture(params=[EMAIL, SMS], ids=lambda channel: channel.name)
def post(request: pytest.FixtureRequest, emptied: Database) -> Iterator[Post]:
    """Both processes behave alike, so most tests run for each."""
    post = Post(emptied, request.param)
    yield post
    post.close()


@pytest.fixture
def mail(emptied: Database) -> Iterator[Post]:
    post = Post(emptied, EMAIL)
    yield post
    post.close()


@pytest.fixture
def texts(emptied: Database) -> Iterator[Post]:
    post = Post(emptied, SMS)
    yield post
    post.close()
