"""The proxy does what it says; else a scenario would pass because nothing happened."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from reproq.db.connect import Connection, connect
from tests.conftest import Database
from tests.faults.clients import Repeated
from tests.faults.proxy import Proxy


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    proxy = Proxy(database.dsn)
    yield proxy
    proxy.close()


@pytest.fixture
def line(proxy: Proxy) -> Iterator[Connection]:
    line = connect(proxy.dsn, name="through the proxy")
    yield line
    line.close()


def test_a_healthy_one_passes_everything_on(line: Connection) -> None:
    assert line.execute("select repeat('x', 1000000)").fetchone() == ("x" * 1_000_000,)


def test_a_cut_one_ends_what_is_open_and_takes_new_connections(proxy: Proxy, line: Connection) -> None:
    proxy.cut()
    with pytest.raises(psycopg.OperationalError):
        line.execute("select 1")
    connect(proxy.dsn, name="again").close()


def test_a_black_hole_says_nothing_and_heals(proxy: Proxy, line: Connection) -> None:
    proxy.black_hole()
    with pytest.raises(psycopg.OperationalError, match="timeout"):
        connect(proxy.dsn, name="in vain", timeout_s=1)
    proxy.healthy()
    with pytest.raises(psycopg.OperationalError):
        line.execute("select 1")
    connect(proxy.dsn, name="again").close()


def test_a_statement_that_a_black_hole_swallowed_never_reached_the_server(
    proxy: Proxy, line: Connection, database: Database
) -> None:
    database.execute("create table seen (n int)")
    proxy.black_hole()
    line.pgconn.send_query(b"insert into seen values (1)")
    time.sleep(0.3)
    proxy.healthy()
    assert database.execute("select * from seen") == []


def test_a_slow_one_is_slow(proxy: Proxy, line: Connection) -> None:
    proxy.delay(0.2)
    began = time.monotonic()
    line.execute("select 1")
    assert time.monotonic() - began >= 0.4


def test_a_swallowed_answer_is_that_of_a_statement_that_took_effect(
    proxy: Proxy, line: Connection, database: Database
) -> None:
    database.execute("create table seen (n int)")
    proxy.swallow(b"insert into seen")
    line.execute("select 1")
    with pytest.raises(psycopg.OperationalError):
        line.execute("insert into seen values (%s)", [1])
    assert database.execute("select * from seen") == [(1,)]
    assert proxy.swallowed == 1


def test_some_answers_are_swallowed_and_some_are_not(proxy: Proxy) -> None:
    proxy.swallow(b"select 42", 0.3, seed=5)
    for _ in range(60):
        with connect(proxy.dsn, name="one of many") as line:
            try:
                line.execute("select 42")
            except psycopg.OperationalError:
                continue
    assert 8 <= proxy.swallowed <= 30


def test_what_a_repeated_call_raises_is_not_forgotten() -> None:
    with pytest.raises(ZeroDivisionError), Repeated(lambda: print(1 // 0), 0.01):
        time.sleep(0.1)
