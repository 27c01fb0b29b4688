"""Commands in this process, against the test's database."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reproq.cli.commands import reproq
from reproq.cli.run import run
from tests.conftest import Database

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], database: Database
) -> Call:
    monkeypatch.chdir(tmp_path)

    def run_it(*arguments: str, role: str = "app", stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setenv("REPROQ_DATABASE_URL", database.app_dsn if role == "app" else database.dsn)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            run(reproq, "reproq", arguments)
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capfd.readouterr()

    return run_it
