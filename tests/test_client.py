from __future__ import annotations

import dataclasses
import gc
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import psycopg
import pydantic
import pytest
from psycopg.rows import class_row, dict_row

from reproq.client import (
    Client,
    ClientError,
    ConnectionLost,
    EnqueueRefused,
    TaskCancelled,
    TaskFailed,
    UnknownTask,
)
from reproq.client.payload import encode
from reproq.db.connect import as_sql, connect
from reproq.db.embedded import EmbeddedServer
from tests.conftest import Database

TYPE = "shop.pay"


@pytest.fixture(scope="module")
def untouched(server: EmbeddedServer, migrated: Callable[[EmbeddedServer], None]) -> Iterator[Database]:
    """One database for all tests whose point is that nothing gets stored."""
    migrated(server)
    made = Database(server, f"untouched_{os.getpid()}")
    with connect(server.dsn("postgres", "postgres"), name="test") as admin:
        admin.execute(as_sql(f"create database {made.name} template reproq"))
        yield made
        admin.execute(as_sql(f"drop database {made.name} with (force)"))


@pytest.fixture(scope="module")
def refused(untouched: Database) -> Iterator[Client]:
    with Client(untouched.app_dsn) as made:
        yield made


@pytest.fixture
def client(database: Database) -> Iterator[Client]:
    with Client(database.app_dsn) as made:
        yield made


def stored(database: Database, task_id: int) -> dict[str, Any]:
    ((row,),) = database.execute("select to_jsonb(t) from queues.task_runs t where id = %s", task_id)
    return cast("dict[str, Any]", row)


def count(database: Database) -> int:
    ((number,),) = database.execute("select count(*) from queues.task_runs")
    return int(number)


def finish(database: Database, task_id: int, ending: str) -> None:
    database.execute(f"update queues.task_runs set {ending}, completed_at = now() where id = %s", task_id)


def cut_connections(database: Database) -> None:
    database.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s and application_name = %s",
        *(database.name, "reproq client"),
    )


# Enqueue


def test_an_enqueued_task_is_committed_when_its_id_comes_back(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE, {"invoice": 7})
    row = stored(database, task_id)
    assert (row["task_type"], row["payload_json"], row["status"], row["queue_name"]) == (
        *(TYPE, {"invoice": 7}, "PENDING", "default"),
    )


def test_a_payload_is_optional(client: Client, database: Database) -> None:
    assert stored(database, client.enqueue(TYPE))["payload_json"] == {}


def test_every_option_reaches_the_row(client: Client, database: Database) -> None:
    when = datetime(2040, 5, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    task_id = client.enqueue(
        *(TYPE, {}),
        scheduled_at=when,
        queue_name="slow",
        priority=-7,
        idempotency_key="k-1",
        max_attempts=9,
        timeout=timedelta(minutes=2),
        unique_among="active",
        limit_key="customer-1",
        trace="00-abc",
    )
    row = stored(database, task_id)
    assert datetime.fromisoformat(row["run_after"]) == when
    assert (row["queue_name"], row["priority"], row["idempotency_key"]) == ("slow", -7, "k-1")
    assert (row["max_attempts"], row["timeout_s"], row["limit_key"], row["trace"]) == (9, 120, "customer-1", "00-abc")


def test_a_delay_counts_by_the_clock_of_the_database(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE, delay=90)
    ((ahead,),) = database.execute(
        "select extract(epoch from run_after - created_at)::float8 from queues.task_runs where id = %s", task_id
    )
    assert ahead == pytest.approx(90, abs=0.5)


def test_an_option_that_is_none_is_as_good_as_not_given(client: Client, database: Database) -> None:
    row = stored(database, client.enqueue(TYPE, None, queue_name=None, priority=None, delay=None))
    assert (row["queue_name"], row["priority"]) == ("default", 0)


def test_the_same_key_answers_the_first_id(client: Client, database: Database) -> None:
    assert client.enqueue(TYPE, {}, idempotency_key="k") == client.enqueue(TYPE, {}, idempotency_key="k")
    assert count(database) == 1


def test_many_are_stored_in_one_statement_and_their_ids_come_in_order(client: Client, database: Database) -> None:
    ids = client.enqueue_many(TYPE, ({"n": n} for n in range(300)), priority=3)
    assert len(ids) == 300
    rows = database.execute("select payload_json->>'n', priority, xmin::text from queues.task_runs order by id")
    assert [(n, priority) for n, priority, _ in rows] == [(str(n), 3) for n in range(300)]
    assert len({xmin for _, _, xmin in rows}) == 1
    assert [stored(database, one)["payload_json"]["n"] for one in ids[:3]] == [0, 1, 2]


def test_many_of_nothing_is_nothing(client: Client, database: Database) -> None:
    assert client.enqueue_many(TYPE, []) == []


def test_many_with_one_bad_payload_store_none(client: Client, database: Database) -> None:
    with pytest.raises(EnqueueRefused):
        client.enqueue_many(TYPE, [{"n": 1}, {"n": 10**1500}])
    assert count(database) == 0


def test_many_take_a_key_each(client: Client, database: Database) -> None:
    first = client.enqueue_many(TYPE, [{}, {}], idempotency_keys=["a", "b"])
    assert client.enqueue_many(TYPE, [{}, {}, {}], idempotency_keys=["b", "c", "a"])[::2] == first[::-1]
    assert count(database) == 3


@pytest.mark.parametrize("payloads", [{"a": 1}, "text", b"bytes"])
def test_many_refuses_a_single_payload(refused: Client, payloads: Any) -> None:
    with pytest.raises(EnqueueRefused, match="list of payloads"):
        refused.enqueue_many(TYPE, payloads)


# Payloads


class Invoice(pydantic.BaseModel):
    number: int
    due: datetime


@dataclasses.dataclass
class Order:
    number: int
    at: datetime


MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
UUID = uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("payload", "means"),
    [
        ({"text": 'Grüße "\\u0000" \\ 🐘 null', "none": None}, {"text": 'Grüße "\\u0000" \\ 🐘 null', "none": None}),
        (
            {"big": 2**64 + 1, "small": -(2**70), "float": -1.5e-7},
            {"big": 2**64 + 1, "small": -(2**70), "float": -1.5e-7},
        ),
        ({"big": 2**80, "at": MOMENT, "id": UUID}, {"big": 2**80, "at": "2026-01-02T00:00:00+00:00", "id": str(UUID)}),
        ({"thousand": int("7" * 1000)}, {"thousand": int("7" * 1000)}),
        ({"tuple": (1, 2), "nested": [{"a": [None, True]}]}, {"tuple": [1, 2], "nested": [{"a": [None, True]}]}),
        (Invoice(number=1, due=MOMENT), {"number": 1, "due": "2026-01-02T00:00:00Z"}),
        (Order(1, MOMENT), {"number": 1, "at": "2026-01-02T00:00:00+00:00"}),
    ],
)
def test_what_json_can_hold_arrives_unchanged(client: Client, database: Database, payload: Any, means: Any) -> None:
    ((text,),) = database.execute(
        "select payload_json::text from queues.task_runs where id = %s", client.enqueue(TYPE, payload)
    )
    assert json.loads(text) == means


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"a": [1.0, float("nan")]}, r"payload\.a\[1\]: nan"),
        ({"a": float("-inf"), "b": None}, r"payload\.a: -inf"),
        ({"a": 2**80, "b": float("nan")}, r"payload\.b: nan"),
        ({"a": {"b": "x\0y"}}, r"payload\.a\.b: has a NUL"),
        ({"x\0y": 1}, r"a key.*NUL"),
        ({"a": "\ud800"}, r"payload\.a: has a lone surrogate"),
        ({"\ud800": 1}, "lone surrogate"),
        ({1: 2}, "the key 1 isn't a text"),
        ({"a": {None: 2}}, r"payload\.a: the key None"),
        ({"a": {1, 2}}, "set"),
        ({"a": b"x"}, "bytes"),
        ({"a": object()}, "object"),
        ([1], "must be an object, not list"),
        ("text", "must be an object, not str"),
        (7, "must be an object, not int"),
        (2**80, "must be an object, not int"),
        ({"a": int("7" * 1001)}, "1000 digits"),
        ({"a": 10**5000}, "digits"),
        (nested(65), "64"),
        (nested(300), "deep"),
        (nested(100_000), "deep"),
        ({"a": "x" * 1_100_000}, "(?i)bytes|MiB|large"),
    ],
)
def test_what_json_or_the_database_cannot_hold_is_refused_clearly_and_nothing_is_stored(
    refused: Client, untouched: Database, payload: Any, message: str
) -> None:
    with pytest.raises(EnqueueRefused, match=message) as caught:
        refused.enqueue(TYPE, payload)
    assert caught.value.sqlstate == "RQ002"
    assert "\n" not in str(caught.value)
    str(caught.value).encode()
    assert count(untouched) == 0


def test_a_payload_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(EnqueueRefused, match="deep"):
        encode(loop)


# Other refusals


@pytest.mark.parametrize(
    ("options", "state", "message"),
    [
        ({"scheduled_at": datetime(2040, 1, 1)}, "RQ003", "no time zone"),
        ({"scheduled_at": "tomorrow"}, "RQ003", "must be a datetime"),
        ({"scheduled_at": MOMENT, "delay": 1}, "RQ003", "contradict"),
        ({"delay": -1}, "RQ003", "0 to ten billion"),
        ({"delay": float("nan")}, "RQ003", "0 to ten billion"),
        ({"delay": True}, "RQ003", "seconds"),
        ({"timeout": "30s"}, "RQ003", "seconds"),
        ({"priority": 2**31}, "RQ003", "32 bits"),
        ({"priority": 1_000_001}, "RQ003", "priority"),
        ({"priority": 1.5}, "RQ003", "whole number"),
        ({"max_attempts": 0}, "RQ003", "attempts"),
        ({"queue_name": "a\0"}, "RQ003", "NUL"),
        ({"queue_name": 7}, "RQ003", "text"),
        ({"idempotency_key": "\ud800"}, "RQ003", "surrogate"),
        ({"unique_among": "everyone"}, "RQ003", "(?i)unique"),
        ({"after": [0]}, "RQ003", "above 0"),
        ({"after": "12"}, "RQ003", "list of task ids"),
    ],
)
def test_a_bad_argument_is_refused_clearly_and_nothing_is_stored(
    refused: Client, untouched: Database, options: Any, state: str, message: str
) -> None:
    with pytest.raises(EnqueueRefused, match=message) as caught:
        refused.enqueue(TYPE, {}, **options)
    assert caught.value.sqlstate == state
    assert count(untouched) == 0


@pytest.mark.parametrize("name", ["", "a b", "_x", "x" * 201, "naïve", "a\0", "x\n", None, 7])
def test_a_bad_type_name_is_refused(refused: Client, name: Any) -> None:
    with pytest.raises(EnqueueRefused, match="isn't a task type"):
        refused.enqueue(name, {})


def test_an_unknown_argument_is_named_with_the_nearest(client: Client) -> None:
    with pytest.raises(TypeError, match="no argument 'priorty'; did you mean priority"):
        client.enqueue(TYPE, {}, **cast("Any", {"priorty": 1}))
    with pytest.raises(TypeError, match="did you mean idempotency_keys"):
        client.enqueue_many(TYPE, [{}], **cast("Any", {"idempotency_key": "a"}))


def test_a_payload_may_not_name_a_function_that_the_login_may_not_run(client: Client) -> None:
    with pytest.raises(EnqueueRefused, match=r"pg_sleep") as caught:
        client.enqueue("db_function", {"task_type": "db_function", "db_function": "pg_catalog.pg_sleep"})
    assert caught.value.sqlstate == "RQ004"


def test_a_login_without_the_role_is_told_what_to_grant(database: Database) -> None:
    with Client(database.worker_dsn) as worker, pytest.raises(EnqueueRefused, match="GRANT reproq_app"):
        worker.enqueue(TYPE, {})


def test_a_database_without_the_schema_is_told_to_migrate(new_database: Callable[..., Database]) -> None:
    with Client(new_database().dsn) as client, pytest.raises(ClientError, match="reproq migrate"):
        client.enqueue(TYPE, {})


def test_an_unreachable_database_says_that_nothing_was_stored() -> None:
    with pytest.raises(ConnectionLost, match="nothing was stored"):
        Client("postgresql://u:canary@127.0.0.1:1/x").enqueue(TYPE, {})


def test_no_address_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPROQ_DATABASE_URL", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with pytest.raises(ClientError, match="REPROQ_DATABASE_URL"):
        Client()


# Connections


def test_a_connection_is_kept_for_the_next_call(client: Client, database: Database) -> None:
    for _ in range(5):
        client.enqueue(TYPE)
    ((sessions,),) = database.execute(
        "select count(*) from pg_stat_activity where datname = %s and application_name = 'reproq client'", database.name
    )
    assert sessions == 1


def test_a_connection_that_the_server_closed_between_two_calls_is_replaced(client: Client, database: Database) -> None:
    first = client.enqueue(TYPE)
    cut_connections(database)
    assert client.enqueue(TYPE) > first
    assert count(database) == 2


def lock_table(database: Database) -> psycopg.Connection[Any]:
    holder = psycopg.connect(database.dsn)
    holder.execute("lock table queues.task_runs in access exclusive mode")
    return holder


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_waiting(database: Database) -> bool:
    ((waiting,),) = database.execute(
        "select count(*) from pg_stat_activity where datname = %s and application_name = 'reproq client' "
        "and wait_event_type = 'Lock'",
        database.name,
    )
    return bool(waiting)


def test_a_connection_that_breaks_before_the_answer_is_never_repeated_blindly(
    client: Client, database: Database
) -> None:
    with ThreadPoolExecutor(1) as pool, lock_table(database) as holder:
        call = pool.submit(client.enqueue, TYPE, {})
        wait_until(lambda: is_waiting(database))
        cut_connections(database)
        with pytest.raises(ConnectionLost, match="may or may not have been stored"):
            call.result(20)
        holder.rollback()
    assert count(database) == 0


def test_an_enqueue_with_a_key_is_repeated_after_a_broken_connection(client: Client, database: Database) -> None:
    with ThreadPoolExecutor(1) as pool, lock_table(database) as holder:
        call = pool.submit(client.enqueue, TYPE, {}, idempotency_key="k")
        wait_until(lambda: is_waiting(database))
        cut_connections(database)
        holder.rollback()
        assert call.result(20) > 0
    assert count(database) == 1


def test_a_client_is_shared_by_many_threads(client: Client, database: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda n: client.enqueue(TYPE, {"n": n}), range(200)))
    assert len(set(ids)) == 200
    rows = database.execute("select id, (payload_json->>'n')::int from queues.task_runs")
    assert dict(rows) == {task_id: n for n, task_id in enumerate(ids)}


def test_a_forked_process_uses_no_connection_of_its_parent(database: Database) -> None:
    script = (
        "import os, sys; from reproq import Client; c = Client(sys.argv[1]); c.enqueue('a')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    c.enqueue('b'); c.close(); os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0; c.enqueue('c'); c.close()"
    )
    subprocess.run([sys.executable, "-c", script, database.app_dsn], check=True, timeout=60)
    assert count(database) == 3


def test_importing_the_client_loads_no_driver() -> None:
    script = (
        "import sys, reproq.client; print([m for m in ('psycopg', 'pydantic', 'orjson', 'click') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


# Results


def test_a_result_is_waited_for(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.result, task_id, 20)
        finish(database, task_id, """status = 'SUCCESSFUL', result_json = '{"paid": 1e400}'""")
        assert waiting.result(20)["paid"] > 10**300


def test_a_failed_task_raises_with_the_reason(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE)
    finish(
        database, task_id, "status = 'FAILED', failure_kind = 'raised', last_error = 'ValueError: x', attempt_count = 1"
    )
    with pytest.raises(TaskFailed, match="failed after 1 attempt, raised: ValueError: x") as caught:
        client.result(task_id)
    assert (caught.value.failure_kind, caught.value.attempts) == ("raised", 1)


def test_a_cancelled_task_raises_with_the_reason(client: Client) -> None:
    task_id = client.enqueue(TYPE)
    assert client.cancel(task_id, "not needed") == "cancelled"
    with pytest.raises(TaskCancelled, match="not needed"):
        client.result(task_id, timeout=5)


def test_a_cancelled_task_that_is_still_stopping_is_waited_for(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE)
    database.execute("select queues.claim('w/1/x', null, null, '1 hour', 1)")
    assert client.cancel(task_id) == "stopping"
    with pytest.raises(TimeoutError, match="CANCELLED"):
        client.result(task_id, timeout=0.05)


def test_a_result_that_takes_too_long_is_a_time_out(client: Client) -> None:
    task_id = client.enqueue(TYPE)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=f"task {task_id} isn't over yet: status PENDING"):
        client.result(task_id, timeout=timedelta(milliseconds=100))
    assert 0.1 <= time.monotonic() - began < 5
    with pytest.raises(TimeoutError):
        client.result(task_id, timeout=0)


def test_waiting_survives_a_database_that_goes_away(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.result, task_id, 30)
        for _ in range(5):
            cut_connections(database)
        finish(database, task_id, "status = 'SUCCESSFUL', result_json = '7'")
        assert waiting.result(30) == 7


@pytest.mark.parametrize("task_id", [0, -1, 2**63, "7", None, True, 999])
def test_an_id_that_is_none_is_an_unknown_task(refused: Client, task_id: Any) -> None:
    with pytest.raises(UnknownTask):
        refused.result(task_id, timeout=5)
    with pytest.raises(LookupError):
        refused.status(task_id)


def test_delete_and_replay_answer_in_words(client: Client, database: Database) -> None:
    failed, waiting = client.enqueue(TYPE), client.enqueue(TYPE)
    finish(database, failed, "status = 'FAILED', failure_kind = 'raised', attempt_count = 3")
    with Client(database.dsn) as operator:
        assert operator.replay(failed)
        assert operator.delete(waiting, "twice")
    assert stored(database, failed)["status"] == "PENDING"
    assert stored(database, waiting)["delete_reason"] == "twice"


def test_stopping_the_wait_leaves_a_usable_client(client: Client, database: Database) -> None:
    stop = threading.Event()
    task_id = client.enqueue(TYPE)
    with ThreadPoolExecutor(4) as pool:
        waits = [pool.submit(client.result, task_id, 0.2) for _ in range(4)]
        stop.set()
        for wait in waits:
            assert isinstance(wait.exception(20), TimeoutError)
    assert client.status(task_id).status == "PENDING"


# Inside your transaction


@pytest.mark.parametrize("factory", [None, dict_row, class_row(dict)])
def test_inside_a_transaction_of_psycopg_the_task_lives_and_dies_with_it(database: Database, factory: Any) -> None:
    with (
        psycopg.connect(database.app_dsn, row_factory=factory)
        if factory
        else psycopg.connect(database.app_dsn) as connection
    ):
        first = Client.enqueue_in(connection, TYPE, {"n": 1}, priority=1)
        assert count(database) == 0
        connection.commit()
        Client.enqueue_in(connection.cursor(), TYPE, {"n": 2})
        assert len(Client.enqueue_many_in(connection, TYPE, [{}, {}])) == 2
        connection.rollback()
    assert [row[0] for row in database.execute("select id from queues.task_runs")] == [first]


def test_inside_a_transaction_with_another_parameter_style(database: Database) -> None:
    with psycopg.connect(database.app_dsn, cursor_factory=psycopg.RawCursor) as connection:
        assert Client.enqueue_in(connection, TYPE, {}) > 0


def test_the_cursor_of_the_caller_keeps_its_rows(database: Database) -> None:
    with psycopg.connect(database.app_dsn) as connection:
        cursor = connection.execute("select generate_series(1, 3)")
        Client.enqueue_in(cursor, TYPE, {})
        assert cursor.fetchall() == [(1,), (2,), (3,)]


def test_a_refusal_inside_a_transaction_is_the_same_error(database: Database) -> None:
    with psycopg.connect(database.app_dsn) as connection, pytest.raises(EnqueueRefused, match="priority") as caught:
        Client.enqueue_in(connection, TYPE, {}, priority=1_000_001)
    assert isinstance(caught.value.__cause__, psycopg.Error)


def test_an_error_that_is_not_ours_passes_unchanged(database: Database) -> None:
    with psycopg.connect(database.app_dsn) as connection:
        connection.close()
        with pytest.raises(psycopg.OperationalError):
            Client.enqueue_in(connection, TYPE, {})


@pytest.mark.parametrize("thing", [None, "postgresql://x", 7, object()])
def test_what_is_no_connection_is_refused_with_what_is(thing: Any) -> None:
    with pytest.raises(TypeError, match="SQLAlchemy Connection or Session"):
        Client.enqueue_in(thing, TYPE, {})


def test_an_asynchronous_connection_is_refused_with_what_to_write() -> None:
    for kind in (psycopg.AsyncConnection, psycopg.AsyncCursor):
        with pytest.raises(TypeError, match="asynchronous"):
            Client.enqueue_in(object.__new__(kind), TYPE, {})


class Recorder:
    """What SQLAlchemy's Connection looks like from outside; the real one is tried below where it is installed."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.dialect = type("Dialect", (), {"paramstyle": "pyformat"})

    def exec_driver_sql(self, sql: str, values: tuple[Any, ...]) -> Any:
        row = self._connection.execute(sql.encode(), values).fetchone()
        assert row is not None
        return type("Result", (), {"scalar": lambda _self: row[0]})()


class Session:
    def __init__(self, connection: Recorder) -> None:
        self._connection = connection

    def get_bind(self) -> None:
        raise AssertionError

    def connection(self) -> Recorder:
        return self._connection


def test_inside_what_looks_like_sqlalchemy(database: Database) -> None:
    with psycopg.connect(database.app_dsn) as connection:
        recorder = Recorder(connection)
        Client.enqueue_in(recorder, TYPE, {"a": "100%"})
        Client.enqueue_in(Session(recorder), TYPE, {})
        connection.commit()
    assert count(database) == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pg8000 leaves sockets open
def test_inside_a_real_sqlalchemy(database: Database) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    orm = pytest.importorskip("sqlalchemy.orm")
    for driver in ("psycopg", "psycopg2", "pg8000"):
        pytest.importorskip(driver)
        engine = sqlalchemy.create_engine(database.app_dsn.replace("postgresql:", f"postgresql+{driver}:"))
        with engine.begin() as connection:
            Client.enqueue_in(connection, TYPE, {"a": "100%"}, priority=1, delay=1.5)
            Client.enqueue_many_in(connection, TYPE, [{"q": "'\"\\{},"}, {}])
        with orm.Session(engine) as session:
            Client.enqueue_in(session, TYPE, {}, after=[])
            session.commit()
            Client.enqueue_in(session, TYPE, {})
            session.rollback()
            with pytest.raises(EnqueueRefused, match="priority"):
                Client.enqueue_in(session, TYPE, {}, priority=1_000_001)
        with pytest.raises(TypeError, match=r"engine\.begin"):
            Client.enqueue_in(engine, TYPE, {})
        engine.dispose()
    gc.collect()
    assert count(database) == 12


def test_inside_a_real_django(database: Database) -> None:
    pytest.importorskip("django")
    script = (
        "import sys, django; from django.conf import settings; from psycopg.conninfo import conninfo_to_dict\n"
        "d = conninfo_to_dict(sys.argv[1])\n"
        "settings.configure(DATABASES={'default': {'ENGINE': 'django.db.backends.postgresql', 'NAME': d['dbname'],\n"
        "  'USER': d['user'], 'PASSWORD': d['password'], 'HOST': d['host'], 'PORT': d['port']}}); django.setup()\n"
        "from django.db import connection, transaction; from reproq.client import Client, EnqueueRefused\n"
        "with transaction.atomic(): Client.enqueue_in(connection, 'shop.pay', {'a': '100%'}, delay=1)\n"
        "try:\n    with transaction.atomic(): Client.enqueue_in(connection, 'shop.pay', {}); raise KeyError\n"
        "except KeyError: pass\n"
        "try:\n    with transaction.atomic(): Client.enqueue_in(connection, 'shop.pay', {}, priority=1000001)\n"
        "except EnqueueRefused as e: print(e.sqlstate)\n"
        "connection.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, database.app_dsn],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "RQ003\n"
    assert count(database) == 1
