from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.executor.driver import ChildDriver, GuardDriver


@pytest.fixture
def guard() -> Iterator[GuardDriver]:
    driver = GuardDriver()
    yield driver
    driver.close()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Callable[..., ChildDriver]]:
    """app(source) starts a child that has imported this source as its module `app`."""
    drivers: list[ChildDriver] = []

    def start(source: str, *modules: str, **options: Any) -> ChildDriver:
        head = "from reproq import Context, Fail, Retry, task\n"
        (tmp_path / "app.py").write_text(head + dedent(source))
        drivers.append(ChildDriver(tmp_path, *(modules or ("app",)), **options))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()
