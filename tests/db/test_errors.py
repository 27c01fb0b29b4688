"""What an error of the database asks for, from real errors where a server can be made to give them."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from reproq.db.connect import connect
from reproq.db.errors import BUSY, DATA, LATE, OURS, REFUSED, Kind, classify, first_line


def error_of(dsn: str, statement: str = "select 1") -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught, connect(dsn, name="test", timeout_s=2) as conn:
        conn.execute(statement.encode())
    return caught.value


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("set statement_timeout = 1; select pg_sleep(5)", BUSY),
        ("select 1/0", DATA),
        ("select 'x'::int", DATA),
        ("select * from nothing", OURS),
        ("do $$ begin raise exception using errcode = 'RQ001'; end $$", DATA),
        ("do $$ begin raise exception using errcode = '25006'; end $$", LATE),
        ("do $$ begin raise exception using errcode = '40P01'; end $$", BUSY),
        ("do $$ begin raise exception using errcode = '53300'; end $$", LATE),
        ("do $$ begin raise exception using errcode = '57P03'; end $$", LATE),
        ("select pg_terminate_backend(pg_backend_pid())", LATE),
    ],
)
def test_an_error_of_a_statement_is_sorted_by_its_sqlstate(
    new_database: Callable[..., Any], statement: str, kind: Kind
) -> None:
    assert classify(error_of(new_database().dsn, statement)) is kind


def test_a_password_login_or_database_that_is_wrong_is_refused(new_database: Callable[..., Any]) -> None:
    database = new_database()
    password = database.dsn.split(":")[2].split("@")[0]
    for wrong in (
        database.dsn.replace(password, "wrong"),
        database.dsn.replace(":" + password, ""),
        database.dsn.replace("postgres:", "nobody_here:"),
        database.dsn.replace(database.name, "nothing_here"),
    ):
        error = error_of(wrong)
        assert classify(error) is REFUSED, error


def test_a_login_that_may_not_connect_is_refused(new_database: Callable[..., Any], new_login: Any) -> None:
    database = new_database()
    database.execute(f"revoke connect on database {database.name} from public")
    assert classify(error_of(new_login(database))) is REFUSED
    without_login = new_login(new_database())
    database.execute(f"alter role {without_login.split('//')[1].split(':')[0]} nologin")
    assert classify(error_of(without_login)) is REFUSED


def test_a_server_with_no_connection_left_is_late(new_database: Callable[..., Any], new_login: Any) -> None:
    assert classify(error_of(new_login(new_database(), "connection limit 0"))) is LATE


def test_a_database_that_takes_no_connections_now_is_late(new_database: Callable[..., Any]) -> None:
    database = new_database()
    with connect(database.server.dsn("postgres", "postgres"), name="test") as conn:
        conn.execute(f"alter database {database.name} with allow_connections false")
    assert classify(error_of(database.dsn)) is LATE


@pytest.mark.parametrize("dsn", ["postgresql://127.0.0.1:1/x", "postgresql://nowhere.invalid/x"])
def test_a_server_that_cant_be_reached_is_late(dsn: str) -> None:
    assert classify(error_of(dsn)) is LATE


@pytest.mark.parametrize("dsn", ["host", "postgresql://h:port/x", "nonsense=1", "postgresql://h/x?nonsense=1"])
def test_an_address_that_makes_no_sense_is_refused(dsn: str) -> None:
    assert classify(error_of(dsn)) is REFUSED


def test_a_connection_that_was_closed_is_late(new_database: Callable[..., Any]) -> None:
    conn = connect(new_database().dsn, name="test")
    conn.close()
    with pytest.raises(psycopg.Error) as caught:
        conn.execute("select 1")
    assert classify(caught.value) is LATE


def test_an_error_is_told_in_its_first_line() -> None:
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"
