"""Enqueue in the caller's own transaction, with whatever driver."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import class_row, dict_row
from sqlalchemy import orm

from reproq.client import (
    Client,
    EnqueueRefused,
)
from tests.client.database_view import TYPE, count
from tests.conftest import Database


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
    for driver in ("psycopg", "psycopg2", "pg8000"):
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
