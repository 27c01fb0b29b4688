"""Opening a connection."""

from collections.abc import Callable
from typing import Any

from reproq.db.connect import connect


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
