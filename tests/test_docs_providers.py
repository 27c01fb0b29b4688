"""docs/providers.md: what a worker is said to answer, it answers, in an empty folder and without a checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import PAGES

ROOT = Path(__file__).parents[1]
SAID = re.findall(r"^\$ (.+)\n(reproq: .+)$", PAGES["docs/providers.md"], re.M)


@pytest.mark.parametrize(("command", "answer"), SAID, ids=[command.split("=")[1].split()[0] for command, _ in SAID])
def test_a_setting_that_is_missing_or_malformed_is_told_as_the_page_says(
    command: str, answer: str, tmp_path: Path
) -> None:
    (tmp_path / "reproq").write_text(f'#!/bin/sh\nexec {sys.executable} -m reproq "$@"\n')
    (tmp_path / "reproq").chmod(0o755)
    ours = ("REPROQ_", "RESEND_", "TWILIO_", "DATABASE_URL")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environ |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr.strip()) == (2, answer)
    assert command.split()[-3].endswith("reproq")  # what an installation has; cmd.worker is a checkout's
