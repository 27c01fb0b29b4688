"""Opening a connection."""

import asyncio
import gc
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from reproq.db.connect import connect, connect_async


def test_a_connection_bears_its_name_and_commits_each_statement(new_database: Callable[..., Any]) -> None:
    database = new_database()
    with connect(database.dsn, name="reproq test") as conn:
        assert conn.execute("select current_setting('application_name')").fetchone() == ("reproq test",)
        conn.execute("create table kept ()")
    assert database.execute("select to_regclass('kept')::text") == [("kept",)]


def test_a_dead_peer_is_noticed_and_the_dsn_may_say_otherwise(new_database: Callable[..., Any]) -> None:
    database = new_database()
    with connect(database.dsn, name="t") as conn:
        assert conn.info.get_parameters()["tcp_user_timeout"] == "10000"
    with connect(database.dsn + "?tcp_user_timeout=777&connect_timeout=9", name="t") as conn:
        assert conn.info.get_parameters()["tcp_user_timeout"] == "777"
        assert conn.info.get_parameters()["connect_timeout"] == "9"


@pytest.mark.parametrize("setting", ["LATIN1", "SQL_ASCII"])
def test_every_text_comes_as_utf8_whatever_login_and_environment_say(
    new_database: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    database = new_database()
    monkeypatch.setenv("PGCLIENTENCODING", setting)
    for dsn in (database.dsn, f"{database.dsn}?client_encoding={setting}"):
        with connect(dsn, name="t") as conn:
            assert conn.execute("select 'café'").fetchone() == ("café",)
            assert conn.info.parameter_status("client_encoding") == "UTF8"


@pytest.fixture
def without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collections")
def test_an_attempt_that_was_never_answered_leaves_no_socket_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"host=127.0.0.1 port={silent.getsockname()[1]} user=nobody dbname=nothing"
        before = os.listdir("/proc/self/fd")
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            connect(dsn, name="t", timeout_s=1)
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            asyncio.run(connect_async(dsn, name="t", timeout_s=1))
        assert os.listdir("/proc/self/fd") == before
