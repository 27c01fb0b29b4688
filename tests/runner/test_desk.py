"""How long a line waits for an answer, and what becomes of a statement that it has given up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from reproq.db.line import Call, Rows
from reproq.runner import desk as desks
from reproq.runner.desk import Desk, Errand
from reproq.runner.loop import Loop
from tests.conftest import Database

SILENCE_S = 1.0  # a busy machine answers `select 1` within half of it
PATIENCE_S = 30.0


class Office:
    """A desk and its loop, with one errand at a time."""

    def __init__(self, database: Database) -> None:
        self.loop = Loop()
        self.desk = Desk(self.loop, database.dsn, "test", SILENCE_S)
        self.desk.open()
        self.lost = 0

    def ask(self, sql: str, *, again: bool = True) -> Rows:
        """The answer of a statement that is sent again, or given up, when it is lost."""
        answers: list[Rows] = []
        errand = Errand(Call(sql.encode(), [], lambda rows: rows), answers.append)

        def lost() -> None:
            self.lost += 1
            if again:
                self.desk.send(errand)
            else:
                answers.append([])

        errand.lost = lost
        self.desk.send(errand)
        self._until(lambda: bool(answers))
        return answers[0]

    def _until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < until
            self.loop.turn(0.05)
            self.desk.check_silence()

    def close(self) -> None:
        self.desk.close()
        self.loop.close()


@pytest.fixture
def office(database: Database) -> Iterator[Office]:
    made = Office(database)
    yield made
    made.close()


def test_a_statement_that_takes_longer_than_the_patience_is_answered_in_the_end(office: Office) -> None:
    """It has twice the time with each attempt: else it would be begun anew for ever."""
    assert office.ask("select 'done' from pg_sleep(2.5)") == [[b"done"]]
    assert office.lost == 2  # after one and two seconds


def test_what_is_given_up_is_stopped_and_does_nothing_any_more(office: Office, database: Database) -> None:
    database.execute("create table traces (n integer)")
    office.ask("insert into traces select 1 from pg_sleep(300)", again=False)
    query = "select pid from pg_stat_activity where query like %s and state = 'active' and pid <> pg_backend_pid()"
    assert office.ask("select 'next'") == [[b"next"]]
    assert database.execute(query, "insert into traces%") == []


def test_patience_lasts_while_it_is_needed_and_no_longer(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    office.ask("select pg_sleep(1.5)")
    assert office.lost == 1
    office.ask("select 1")
    office.ask("select pg_sleep(1.5)")
    assert office.lost == 1
    monkeypatch.setattr(desks, "_REMEMBER_S", 0.0)
    office.ask("select 1")
    office.ask("select pg_sleep(1.5)")
    assert office.lost == 2
