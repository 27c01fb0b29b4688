"""How much a pool wants claimed ahead of its children."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reproq.runner.crew import MAX_BATCH, Station


@pytest.fixture
def station() -> Station:
    made = Station(cast(Any, SimpleNamespace(idle=[])))
    made.registered = True
    return made


def works(station: Station, tasks: int, from_s: float, seconds: float) -> None:
    """So many tasks end at an even pace, and the loop turns after each."""
    for n in range(1, tasks + 1):
        station.note(0.005)
        station.count(from_s + seconds * n / tasks)


def test_the_first_few_tasks_say_already_how_much_to_claim_ahead(station: Station) -> None:
    now = time.monotonic()
    station.count(now)
    assert station.wants() == 0
    works(station, 10, now, 0.025)  # 400 a second
    assert 38 <= station.wants() <= 40


def test_a_few_answers_at_once_are_no_rate(station: Station) -> None:
    now = time.monotonic()
    station.count(now)
    works(station, 8, now, 0.0001)
    assert station.wants() <= 40


def test_what_is_claimed_ahead_has_a_bound_and_goes_down_with_the_work(station: Station) -> None:
    now = time.monotonic()
    works(station, 20_000, now, 0.5)
    assert station.wants() == MAX_BATCH
    for n in range(1, 11):
        station.count(now + 0.5 + n * 0.2)
    assert station.wants() < 5
