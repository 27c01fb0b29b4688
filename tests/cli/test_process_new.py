from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reproq.cli.scaffold import _RESERVED
from tests.cli.conftest import Call
from tests.conftest import Database

ROOT = Path(__file__).parents[2]


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_new_process_is_a_numbered_file_and_its_test(call: Call, tmp_path: Path) -> None:
    status, out, _err = call("process", "new", "invoice_reminder")
    assert status == 0
    assert files(tmp_path) == ["db/processes/0001_invoice_reminder.sql", "db/processes/test_invoice_reminder.py"]
    assert "next: pytest db/processes, then reproq migrate --dir db/processes" in out
    assert call("process", "new", "parcel_notice")[0] == 0
    assert "db/processes/0002_parcel_notice.sql" in files(tmp_path)
    (tmp_path / "db/processes/0041_by_hand.sql").touch()
    assert call("process", "new", "visit", "--dir", "db/processes")[0] == 0
    assert "db/processes/0042_visit.sql" in files(tmp_path)


def test_nothing_of_the_example_is_left_in_a_process_of_another_name(call: Call, tmp_path: Path) -> None:
    assert call("process", "new", "parcel_notice", "--dir", "sql/own")[0] == 0
    text = "".join(path.read_text() for path in (tmp_path / "sql/own").iterdir())
    assert "invoice" not in text
    assert "db/processes" not in text


def test_nothing_is_overwritten(call: Call, tmp_path: Path) -> None:
    call("process", "new", "visit")
    before = {name: (tmp_path / name).read_text() for name in files(tmp_path)}
    status, _out, err = call("process", "new", "visit")
    assert (status, "0001_visit.sql is there already" in err) == (2, True)
    (tmp_path / "db/processes/0001_visit.sql").unlink()
    status, _out, err = call("process", "new", "visit")
    assert (status, "test_visit.py is there already, and nothing was written" in err) == (2, True)
    assert files(tmp_path) == ["db/processes/test_visit.py"]
    assert (tmp_path / "db/processes/test_visit.py").read_text() == before["db/processes/test_visit.py"]


@pytest.mark.parametrize("name", ["Visit", "1st", "a-b", "a.b", "../x", "", "x" * 41, "é"])
def test_a_name_that_is_no_plain_word_is_refused(call: Call, tmp_path: Path, name: str) -> None:
    status, _out, err = call("process", "new", "--", name)
    assert (status, "can't be a process's name" in err) == (2, True)
    assert files(tmp_path) == []


@pytest.mark.parametrize("name", ["comms", "queues", "public", "pg_x", "order", "user", "interval", "my_task"])
def test_a_name_that_means_something_else_is_refused(call: Call, tmp_path: Path, name: str) -> None:
    status, _out, err = call("process", "new", name)
    assert (status, "means something else already" in err) == (2, True)
    assert files(tmp_path) == []


def test_no_word_of_sqls_own_can_be_a_name(database: Database) -> None:
    """Calls such as interval.has_interval_task_succeeded(…) are no SQL: the file couldn't be applied."""
    words = {word for (word,) in database.execute("select word from pg_get_keywords() where catcode <> 'U'")}
    assert words - _RESERVED == set()


@pytest.mark.parametrize("name", ["invoice_reminder", "n" * 40])
def test_its_own_test_passes_as_written(call: Call, tmp_path: Path, name: str) -> None:
    """A real worker, as it is started there, by way of the `file` provider."""
    assert call("process", "new", name)[0] == 0
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("REPROQ_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "db/processes"],
        cwd=tmp_path, env=environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
