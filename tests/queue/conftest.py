"""The queue as a worker, an app and an administrator see it: one database per server, emptied before each test."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection, as_sql, connect
from reproq.db.embedded import EmbeddedServer
from tests.conftest import Database

T = TypeVar("T")
LONG_AGO = "2001-01-01 00:00:00+00"
_EMPTY = """
    delete from queues.task_runs; delete from queues.task_events; delete from queues.error; delete from queues.workers;
    delete from queues.sleeper; delete from queues.task_types; delete from queues.settings;
    insert into queues.settings default values"""


@dataclass(frozen=True)
class Claimed:
    """One row of a claim, with the fence that its worker needs."""

    id: int
    claim_no: int
    worker: str
    row: dict[str, Any]

    @property
    def fence(self) -> dict[str, int]:
        return {"id": self.id, "claim_no": self.claim_no}


class Queue:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.admin = database.connect()

    def rows(self, statement: str, *args: object, by: Connection | None = None) -> list[dict[str, Any]]:
        with (by or self.admin).cursor(row_factory=dict_row) as cursor:
            cursor.execute(as_sql(statement), args or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *args: object, by: Connection | None = None) -> Any:
        ((value,),) = (row.values() for row in self.rows(statement, *args, by=by))
        return value

    def call(self, function: str, by: Connection | None = None, /, **named: object) -> list[dict[str, Any]]:
        """Select from a function of the schema queues, its arguments by name."""
        places = ", ".join(f"{name} => %s" for name in named)
        values = (Jsonb(value) if isinstance(value, dict) else value for value in named.values())
        return self.rows(f"select * from queues.{function}({places})", *values, by=by)

    def enqueue(self, task_type: str = "t", payload: object = None, **named: object) -> int:
        (row,) = self.call("enqueue", task_type=task_type, payload=Jsonb(payload or {}), **named)
        return int(row["enqueue"])

    def enqueue_many(self, task_type: str = "t", payloads: Sequence[object] = (), **named: object) -> list[int]:
        documents = [Jsonb(payload) for payload in payloads]
        (row,) = self.call("enqueue_many", task_type=task_type, payloads=documents, **named)
        return list(row["enqueue_many"])

    def claim(self, max_tasks: int = 1, worker: str = "w", lease: str = "30 seconds", **named: Any) -> list[Claimed]:
        for name in ("hints", "pools"):
            if named.get(name) is not None:
                named[name] = Jsonb(named[name])
        named = {"queues": None, "prefixes": None, **named}
        rows = self.call("claim", worker_id=worker, lease=lease, max_tasks=max_tasks, **named)
        return [Claimed(row["id"], row["claim_no"], worker, row) for row in rows]

    def claimed(self, task_type: str = "t", *, worker: str = "w", **named: object) -> Claimed:
        """A new task, claimed."""
        task_id = self.enqueue(task_type, **named)
        (row,) = self.claim(worker=worker, queues=[str(named.get("queue_name", "default"))], prefixes=[task_type])
        assert row.id == task_id
        return row

    def start(self, held: Claimed) -> str:
        return self._answer("start", held)

    def heartbeat(self, held: Claimed, lease: str = "30 seconds", **named: object) -> str:
        return self._answer("heartbeat", held, lease=lease, **named)

    def give_back(self, held: Claimed, **named: object) -> str:
        return self._answer("give_back", held, **named)

    def _answer(self, function: str, held: Claimed, **named: object) -> str:
        (row,) = self.call(function, worker_id=held.worker, ids=[held.id], claim_nos=[held.claim_no], **named)
        assert (row["id"], row["claim_no"]) == (held.id, held.claim_no)
        return str(row["answer"])

    def finish(self, held: Claimed, success: bool | None = None, **outcome: object) -> str:
        document = held.fence | ({"success": success} if success is not None else {}) | outcome
        (row,) = self.call("finish", worker_id=held.worker, outcomes=Jsonb([document]))
        return str(row["answer"])

    def succeed(self, held: Claimed, **outcome: object) -> str:
        return self.finish(held, True, **outcome)

    def fail(self, held: Claimed, **outcome: object) -> str:
        return self.finish(held, False, **({"kind": "raised", "error": "boom"} | outcome))

    def cancel(self, task_id: int, reason: str | None = None) -> str:
        return str(self.value("select queues.cancel(%s, %s)", task_id, reason))

    def soft_delete(self, task_id: int, reason: str | None = "no longer wanted") -> str:
        return str(self.value("select queues.soft_delete(%s, %s)", task_id, reason))

    def replay(self, task_id: int, attempts: int | None = None) -> str:
        return str(self.value("select queues.replay(%s, %s)", task_id, attempts))

    def reclaim(self) -> int:
        return int(self.value("select internal.reclaim('-infinity')"))

    def expire(self, task_id: int, ago: str = "1 second") -> None:
        """Let its lease have run out that long ago."""
        self.set(task_id, f"leased_until = now() - interval '{ago}'")

    def set(self, task_id: int, assignments: str) -> None:
        self.rows(f"update queues.task_runs set {assignments} where id = %s", task_id)

    def task(self, task_id: int) -> dict[str, Any]:
        (row,) = self.rows("select * from queues.task_runs where id = %s", task_id)
        return row

    def count(self, where: str = "true") -> int:
        return int(self.value(f"select count(*) from queues.task_runs where {where}"))

    def events(self, task_id: int) -> list[str]:
        return [
            row["event"]
            for row in self.rows("select event from queues.task_events where task_id = %s order by id", task_id)
        ]

    def last_detail(self, task_id: int) -> dict[str, Any]:
        rows = self.rows("select detail from queues.task_events where task_id = %s order by id desc limit 1", task_id)
        return dict(rows[0]["detail"])

    def waits_for_a_lock(self, conn: Connection) -> bool:
        sql = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
        return bool(self.value(sql, conn.info.backend_pid))

    def declare(self, task_type: str, **settings: object) -> None:
        """What a child reported of a type."""
        self.call(
            "register_worker",
            worker_id="declarer",
            hostname="h",
            pid=1,
            version="1",
            queues=None,
            prefixes=None,
            pool_size=1,
            types={task_type: settings},
        )


@pytest.fixture(scope="session")
def shared_databases(migrated: Callable[[EmbeddedServer], None]) -> Iterator[Callable[[EmbeddedServer], Queue]]:
    made: dict[int, Queue] = {}

    def get(server: EmbeddedServer) -> Queue:
        if server.port not in made:
            migrated(server)
            name = f"queue_{threading.get_native_id()}"
            with connect(server.dsn("postgres", "postgres"), name="test") as conn:
                conn.execute(as_sql(f"create database {name} template reproq"))
            made[server.port] = Queue(Database(server, name))
        return made[server.port]

    yield get
    for queue in made.values():
        queue.admin.close()


_tests = itertools.count(1)


@pytest.fixture
def q(server: EmbeddedServer, shared_databases: Callable[[EmbeddedServer], Queue]) -> Iterator[Queue]:
    """An empty queue, in a database that the tests of this folder share: nothing but rows may be changed in it."""
    queue = shared_databases(server)
    queue.admin.execute(as_sql(_EMPTY))
    if next(_tests) % 50 == 0:
        queue.admin.execute("vacuum queues.task_runs, queues.task_events, queues.settings")
    queue.database = Database(server, queue.database.name)
    yield queue
    queue.database.close()


@pytest.fixture
def own(database: Database) -> Queue:
    """A queue in a database of its own, for tests that change more than rows."""
    return Queue(database)


def refused(act: Callable[[], object]) -> tuple[str, str, str]:
    """SQLSTATE, message and hint of the error that the database raises."""
    with pytest.raises(psycopg.Error) as caught:
        act()
    diag = caught.value.diag
    return str(caught.value.sqlstate), diag.message_primary or "", diag.message_hint or ""


def at_once(count: int, act: Callable[[int], T]) -> list[T]:
    """Run act(0) … act(count - 1) in as many threads, released together."""
    gate = threading.Barrier(count)

    def run(number: int) -> T:
        gate.wait(60)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def hints_after(q: Queue, **named: Any) -> dict[str, Any]:
    """Claim one of many, so that the hints point into the middle of the lane."""
    q.enqueue_many("t", [{}] * 300)
    (row,) = q.claim(1, **named)
    return dict(row.row["next_hints"])


def aged(hints: dict[str, Any], *names: str, seconds: float = 2) -> dict[str, Any]:
    """As if those moments lay so far back."""
    then = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - seconds))
    return hints | dict.fromkeys(names, then)
