from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Database
from tests.outbox.office import Office


@pytest.fixture
def office(database: Database, tmp_path: Path) -> Iterator[Office]:
    office = Office(database, tmp_path)
    yield office
    office.close()
