"""What the beginnings and ends of children mean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from reproq.executor.members import Child
from reproq.models.execution import Execution
from reproq.runner import answers
from reproq.runner.floor import Floor


@pytest.mark.parametrize(("closing", "told"), [(False, 1), (True, 0)])
def test_a_child_that_could_not_be_started_is_a_failed_boot_unless_the_worker_ends(closing: bool, told: int) -> None:
    """A template that is told to end refuses the forks that were asked of it just before."""
    failures: list[str] = []
    floor = SimpleNamespace(closing=closing, _boot_failed=lambda _child, message, _tail: failures.append(message))
    child = cast(Child, SimpleNamespace(key="app-8"))
    Floor.child_not_started(cast(Any, floor), child, "its template has ended")
    assert len(failures) == told


@pytest.mark.parametrize(
    ("said", "believed"),
    [(0.005, 0.005), (None, 0.5), (-1, 0.5), (2.5, 0.5), (10**400, 0.5)],
    ids=["as said", "nothing said", "less than nothing", "longer than since the claim", "no number of seconds"],
)
def test_how_long_a_task_ran_is_believed_as_far_as_it_can_be(said: float | None, believed: float) -> None:
    execution = Execution(1, 1, "t", "default", "{}", 1, 3, None, None)
    execution.claimed_at, execution.handed_at = 100.0, 101.5
    assert answers._ran_s(execution, said, 102.0) == pytest.approx(believed)
