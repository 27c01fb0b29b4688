"""What the runner says of itself: alive while its loop turns, ready while it can run tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from reproq.runner.health import Health


@dataclass
class Child:
    ready: bool = True


@dataclass
class Pool:
    name: str = "app"
    registered: bool = True
    members: list[Child] = field(default_factory=lambda: [Child()])


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(30.0, clock)


def look(health: Health, *pools: Pool, guarded: bool = True, database: bool = True) -> list[str]:
    health.look(pools or (Pool(),), guarded=guarded, database=database)
    return health.faults()


def test_before_anything_is_known_it_is_alive_and_not_ready(health: Health) -> None:
    assert health.alive
    assert not health.ready


def test_it_is_ready_with_children_up_and_the_database_answering(health: Health) -> None:
    assert look(health) == []
    assert health.ready


def test_it_says_which_pool_is_down(health: Health) -> None:
    assert look(health, Pool(), Pool("channels", members=[Child(ready=False)])) == [
        "no child of pool channels is ready"
    ]


def test_a_pool_whose_types_the_database_has_not_heard_of_is_not_ready(health: Health) -> None:
    assert look(health, Pool(registered=False)) == ["no child of pool app is ready"]


def test_a_database_that_does_not_answer_makes_it_unready_but_not_dead(health: Health) -> None:
    assert look(health, database=False) == ["the database does not answer"]
    assert health.alive


def test_without_a_guard_no_child_is_up(health: Health) -> None:
    assert look(health, guarded=False) == ["no child of pool app is ready"]


def test_a_child_that_is_being_replaced_changes_nothing_for_a_moment(health: Health, clock: Clock) -> None:
    look(health)
    clock.now += 1
    health.turned_at = clock.now
    assert look(health, Pool(members=[])) == []
    clock.now += 2
    health.turned_at = clock.now
    assert look(health, Pool(members=[])) == ["no child of pool app is ready"]


def test_a_loop_that_stopped_turning_is_neither_alive_nor_ready(health: Health, clock: Clock) -> None:
    look(health)
    clock.now += 10.5
    assert not health.alive
    assert health.faults() == ["the loop has not turned for 10 s"]
    health.turned_at = clock.now
    assert health.ready


def test_a_loop_is_missed_sooner_where_leases_are_short(clock: Clock) -> None:
    health = Health(3.0, clock)
    clock.now += 1.1
    assert not health.alive


def test_a_draining_worker_is_alive_and_not_ready(health: Health) -> None:
    look(health)
    health.draining = True
    assert health.alive
    assert health.faults() == ["draining"]
