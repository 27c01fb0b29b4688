from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Database
from tests.worker.harness import House


@pytest.fixture
def house(database: Database, tmp_path: Path) -> Iterator[House]:
    house = House(database, tmp_path)
    yield house
    house.close()
