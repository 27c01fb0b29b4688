"""The examples run as their pages say, and what they print is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def played(name: str, folder: Path) -> str:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("REPROQ_")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/processes" / name)],
        cwd=folder, env=environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def facts(out: str) -> list[str]:
    """The facts of the timeline that was printed, without those that only repeat others."""
    rows = re.findall(r"^  \d{4}-\S+ \S+  \+\S+ s +(?:(\d+)  )? *(\w+)", out, re.M)
    return [f"{fact} {attempt}".strip() for attempt, fact in rows if fact not in ("decided", "note")]


def test_a_send_fails_is_tried_again_and_succeeds(tmp_path: Path) -> None:
    out = played("fail_retry_succeed.py", tmp_path)
    attempts = ["scheduled 1", "started 1", "failed 1", "scheduled 2", "started 2", "succeeded 2"]
    assert facts(out) == ["created", *attempts, "ended"]
    assert "the mail server has taken 1 message:" in out
    assert "next check: none: it has ended" in out


def test_a_parent_starts_its_children_waits_for_them_and_ends(tmp_path: Path) -> None:
    out = played("supervision_tree.py", tmp_path)
    assert facts(out) == ["created", "child_started", "child_started", "child_started", "ended"]
    assert "newsletter.edition 1: ended, succeeded (3 of 3 were sent)" in out
    assert len(re.findall(r"comms\.send_email +\d +succeeded", out)) == 3
