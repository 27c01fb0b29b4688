"""Who may do what is written down, and compared."""

from __future__ import annotations

from typing import Any

from reproq.db.connect import connect
from reproq.db.doctor import look_around
from reproq.db.security.shape import golden, lines

from . import catalog


def test_the_catalog_is_as_it_was_written_down(database: Any) -> None:
    with connect(database.dsn, name="test") as conn:
        found = catalog.text(conn)
    assert found == catalog.GOLDEN.read_text(), "if that is meant: `make catalog`, and read the difference"


def test_what_doctor_compares_with_is_what_migrations_make(database: Any) -> None:
    """On every version of the server, and with nothing left over."""
    with connect(database.dsn, name="test") as conn:
        found = {key: line.essence for key, line in lines(look_around(conn)).items()}
    meant = {key: line.essence for key, line in golden().items()}
    assert found == meant, "if that is meant: `make catalog`, and read the difference of migrations/shape.txt"


def test_a_right_more_is_a_line_that_differs(database: Any) -> None:
    database.execute("grant execute on function queues.replay to reproq_app")
    with connect(database.dsn, name="test") as conn:
        changed = set(catalog.text(conn).splitlines()) ^ set(catalog.GOLDEN.read_text().splitlines())
    assert len(changed) == 2
    assert all("queues.replay" in line for line in changed)
