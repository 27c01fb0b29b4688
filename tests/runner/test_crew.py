"""How much a pool wants claimed ahead of its children."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from reproq.runner import crew
from reproq.runner.crew import MAX_BATCH, Station

BEGIN = 1000.0


@pytest.fixture
def station(monkeypatch: pytest.MonkeyPatch) -> Station:
    monkeypatch.setattr(crew, "time", SimpleNamespace(monotonic=lambda: BEGIN))
    made = Station(cast(Any, SimpleNamespace(idle=[], kind=SimpleNamespace(packets=True, size=2))))
    made.registered = True
    return made


def works(station: Station, tasks: int, from_s: float, seconds: float, each_s: float = 0.005) -> None:
    """So many tasks end at an even pace, and the loop turns after each."""
    for n in range(1, tasks + 1):
        station.note(each_s)
        station.count(from_s + seconds * n / tasks)


def test_the_first_few_tasks_say_already_how_much_to_claim_ahead(station: Station) -> None:
    station.count(BEGIN)
    assert station.wants() == 0
    works(station, 10, BEGIN, 0.025)  # 400 a second
    assert 38 <= station.wants() <= 40


def test_a_few_answers_at_once_are_no_rate(station: Station) -> None:
    station.count(BEGIN)
    works(station, 8, BEGIN, 0.0001)
    assert station.wants() <= 40


def test_what_is_claimed_ahead_has_a_bound_and_goes_down_with_the_work(station: Station) -> None:
    works(station, 20_000, BEGIN, 0.5, each_s=0.00005)
    assert station.wants() == MAX_BATCH
    for n in range(1, 11):
        station.count(BEGIN + 0.5 + n * 0.2)
    assert station.wants() < 5


def test_a_batch_is_asked_for_while_another_and_a_half_are_still_waiting(station: Station) -> None:
    """Else the children would be idle until it has come."""
    works(station, 20_000, BEGIN, 0.5, each_s=0.00005)
    station.ready.extend([cast(Any, None)] * 750)
    assert station.wants() == MAX_BATCH
    station.ready.extend([cast(Any, None)] * 300)
    assert station.wants() == 0


def test_fewer_are_claimed_ahead_when_tasks_take_longer_before_the_rate_has_fallen(station: Station) -> None:
    """Or urgent ones would wait behind those that were claimed for the old rate."""
    works(station, tasks=2000, from_s=BEGIN, seconds=0.2, each_s=0.0002)
    assert station.wants() == MAX_BATCH
    for _ in range(20):
        station.note(0.2)
    station.rate = 10_000
    assert 2 <= station.wants() <= 5


def test_where_lines_wait_in_sockets_a_claim_has_more_time(station: Station) -> None:
    """Fewer and larger ones: each costs the children some of their time."""
    works(station, 100, BEGIN, 0.25)  # 400 a second, of 5 ms each
    station.ready.extend([cast(Any, None)] * 11)
    assert station.wants() == 0
    station.ready.pop()
    assert 28 <= station.wants() <= 30


@pytest.mark.parametrize(("seconds", "lines"), [(0.0001, 96), (0.005, 10), (0.02, 2), (0.04, 2), (0.06, 1)])
def test_the_shorter_tasks_are_the_more_lines_wait_behind_them(station: Station, seconds: float, lines: int) -> None:
    for _ in range(200):
        station.note(seconds)
    assert station.depth == lines


def test_tasks_that_are_said_to_take_no_time_at_all_are_short_ones(station: Station) -> None:
    """What a child says may be a lie: after so many of these the mean is nothing."""
    for _ in range(20_000):
        station.note(0.0)
    assert station.depth == 96
    assert not station.is_steady


def test_one_short_task_among_long_ones_says_that_the_next_may_be_short_too(station: Station) -> None:
    for _ in range(200):
        station.note(0.005)
    assert station.least_s == pytest.approx(0.005, rel=0.01)
    station.note(0.0001)
    assert station.least_s == pytest.approx(0.0001)


def test_what_is_long_is_told_by_what_tasks_have_taken_lately(station: Station) -> None:
    for _ in range(200):
        station.note(0.0001)
    assert station.long_s == pytest.approx(0.004)
    for _ in range(200):
        station.note(0.006)
    assert station.long_s == pytest.approx(0.018, rel=0.01)
