"""What the beginnings and ends of children mean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from reproq.executor.members import Child
from reproq.runner.floor import Floor


@pytest.mark.parametrize(("closing", "told"), [(False, 1), (True, 0)])
def test_a_child_that_could_not_be_started_is_a_failed_boot_unless_the_worker_ends(closing: bool, told: int) -> None:
    """A template that is told to end refuses the forks that were asked of it just before."""
    failures: list[str] = []
    floor = SimpleNamespace(closing=closing, _boot_failed=lambda _child, message, _tail: failures.append(message))
    child = cast(Child, SimpleNamespace(key="app-8"))
    Floor.child_not_started(cast(Any, floor), child, "its template has ended")
    assert len(failures) == told
