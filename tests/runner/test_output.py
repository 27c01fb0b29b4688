"""How much of what a task prints gets into the log."""

from __future__ import annotations

from typing import Any, cast

import pytest

from reproq.executor.members import Child
from reproq.runner.output import TaskOutput


class Said(TaskOutput):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[bytes] = []

    def _line(self, _child: Child, line: bytes) -> None:  # type: ignore[override]
        self.lines.append(line)


@pytest.fixture
def child() -> Child:
    return Child(cast(Any, type("Pool", (), {"station": None})), "app-1", 0, 0, 0, cast(Any, None))


def prints(said: Said, child: Child, data: bytes) -> None:
    child.keep(data)
    said.say(child, data)


def test_two_thousand_lines_of_a_task_are_logged_and_of_the_next_one_again(child: Child) -> None:
    said = Said()
    for _ in range(3):
        prints(said, child, b"y\n" * 1000)
    assert said.lines[:2000] == [b"y"] * 2000
    assert len(said.lines) == 2001
    assert b"not logged" in said.lines[-1]
    said.end(child)
    child.forget_output()
    prints(said, child, b"next\n")
    assert said.lines[-1] == b"next"


@pytest.mark.parametrize(
    "printed", [b"Traceback \xff\xfe\n", b"x" * 99 + b"\n" + b"long\n" * 20_000], ids=["bytes", "long"]
)
def test_the_end_of_what_a_failed_boot_printed_is_logged_however_long_it_is(child: Child, printed: bytes) -> None:
    """It comes as text at once, which need not be as long as what was printed."""
    said = Said()
    child.keep(printed)
    said.say(child, child.tail().encode())
    assert said.lines
