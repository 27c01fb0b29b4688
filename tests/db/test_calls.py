"""Statements that answer one text, without psycopg's cursors."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from reproq.db.calls import Calls
from reproq.db.connect import connect
from tests.conftest import Database

PREPARED = "select count(*)::text from pg_prepared_statements"


@pytest.fixture
def calls(database: Database) -> Iterator[Calls]:
    with connect(database.dsn, name="test calls") as connection:
        yield Calls(connection)


@pytest.mark.parametrize("value", ["", "plain", "100 % of %s", "ünï ☃", "x" * 3_000_000, None])
def test_every_text_arrives_as_it_was_sent_however_often(calls: Calls, value: str | None) -> None:
    for _ in range(5):
        assert calls.text("select %s::text", [value]) == value


def test_values_keep_their_places(calls: Calls) -> None:
    assert calls.text("select %s::text || ' < ' || %s::text || '!'", ["a", "b"]) == "a < b!"


def test_a_text_with_a_nul_is_refused_and_not_cut(calls: Calls) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        calls.text("select %s::text", ["a\0b"])
    assert calls.text("select %s::text", ["after"]) == "after"


def test_an_error_of_the_servers_has_its_class_and_the_connection_goes_on(calls: Calls) -> None:
    for _ in range(6):  # prepared or not
        with pytest.raises(psycopg.errors.DivisionByZero) as caught:
            calls.text("select (1 / %s::text::int)::text", ["0"])
        assert caught.value.sqlstate == "22012"
    with pytest.raises(psycopg.errors.UndefinedFunction):
        calls.text("select nobody_knows_this(%s::text)", ["x"])
    assert calls.text("select %s::text", ["after"]) == "after"


def test_what_comes_again_and_again_is_prepared_up_to_a_hundred_statements(calls: Calls) -> None:
    for _ in range(3):
        calls.text("select %s::text", ["x"])
    assert calls.text(PREPARED, []) == "0"
    calls.text("select %s::text", ["x"])
    assert calls.text(PREPARED, []) == "1"
    for n in range(110):
        for _ in range(4):
            assert calls.text(f"select {n} || %s::text", ["x"]) == f"{n}x"
    assert calls.text(PREPARED, []) == "100"


def test_nothing_is_prepared_where_a_pooler_may_send_the_next_statement_elsewhere(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reproq.db.calls.is_direct", lambda _connection: False)
    with connect(database.dsn, name="test calls") as connection:
        calls = Calls(connection)
        for _ in range(6):
            assert calls.text("select %s::text", ["x"]) == "x"
        assert calls.text(PREPARED, []) == "0"
