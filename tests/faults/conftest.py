"""Seeds and sizes: FAULTS_SEED=1,2,3 and FAULTS_SIZE=ci|full, as `make faults` sets them; CI: seed 1, reduced."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from reproq.db.embedded import EmbeddedServer
from tests.conftest import SERVERS, Database
from tests.faults.scene import Scene

FULL = os.environ.get("FAULTS_SIZE") == "full"
SEEDS = [int(word) for word in os.environ.get("FAULTS_SEED", "1,2,3" if FULL else "1").split(",")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", SEEDS, ids=[f"seed{seed}" for seed in SEEDS])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A scenario lasts as long as its faults."""
    for item in items:
        if "seed" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1500 if FULL else 300))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    seed = getattr(item, "funcargs", {}).get("seed")
    if report.failed and seed is not None:
        scenario = getattr(item, "originalname", item.name).removeprefix("test_").partition("_")[0].lstrip("s0")
        size = "" if FULL else " SIZE=ci"
        report.sections.append(("replay", f"make faults SEED={seed} SCENARIO={scenario}{size}"))
    return report


@pytest.fixture
def scene(database: Database, tmp_path: Path, seed: int) -> Iterator[Scene]:
    scene = Scene(database, tmp_path, seed, FULL)
    yield scene
    scene.close()


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """Not below pytest's folder: a test of root's runs its server as nobody, and each new pytest closes that folder."""
    with tempfile.TemporaryDirectory(prefix="reproq-durable-") as folder:
        Path(folder).chmod(0o711)
        with EmbeddedServer(Path(folder) / "server", binaries=next(iter(SERVERS.values()))) as server:
            server.install(say=lambda _: None)
            yield server


@pytest.fixture
def own_scene(own_server: EmbeddedServer, tmp_path: Path, seed: int) -> Iterator[Scene]:
    database = Database(own_server, "reproq")
    scene = Scene(database, tmp_path, seed, FULL)
    yield scene
    scene.close()
    database.close()
