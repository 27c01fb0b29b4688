"""install.sh, as a packager uses it. What it does to a server is the guide's test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.units.machine import ROOT, UNITS


def staged(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", "install-systemd", f"DESTDIR={folder}"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_a_packager_gets_units_examples_and_a_closed_folder_for_secrets(tmp_path: Path) -> None:
    done = staged(tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    units = tmp_path / "etc/systemd/system"
    ours = {path.name for path in UNITS.iterdir() if path.suffix in (".service", ".target")}
    assert {path.name for path in units.iterdir() if path.is_file()} == ours
    assert all((path.stat().st_mode & 0o777) == 0o644 for path in units.iterdir() if path.is_file())
    assert (units / "reproq-worker@.service.d/limits.conf").exists()
    secrets = tmp_path / "etc/reproq/credentials"
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert list(secrets.iterdir()) == [], "a key in a package would be everybody's"


def test_what_an_operator_has_written_survives_an_upgrade(tmp_path: Path) -> None:
    staged(tmp_path)
    own = [
        tmp_path / "etc/reproq/reproq.env",
        tmp_path / "etc/systemd/system/reproq-worker@.service.d/limits.conf",
    ]
    unit = tmp_path / "etc/systemd/system/reproq-worker@.service"
    for path in (*own, unit):
        path.write_text("# mine\n")
    assert staged(tmp_path).returncode == 0
    assert [path.read_text() for path in own] == ["# mine\n"] * 2
    assert unit.read_text() == (UNITS / unit.name).read_text()


def test_a_checkout_in_another_place_is_refused() -> None:
    if os.geteuid() != 0:
        pytest.skip("asked as root only: others are refused before")
    done = subprocess.run(["sh", str(UNITS / "install.sh")], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "/opt/reproq" in done.stderr
