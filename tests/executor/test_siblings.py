"""Children of one user don't open each other: neither environment nor memory nor descriptors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.executor.driver import ROOT

NOBODY = 65534
APP = """
import os
from reproq import task

@task("opens")
def opens(payload):
    seen = {}
    for name in ("environ", "mem", "maps", "fd/0", "fdinfo/0", "auxv"):
        try:
            with open(f"/proc/{payload['pid']}/{name}", "rb") as file:
                seen[name] = "opened"
        except PermissionError:
            seen[name] = "refused"
    return seen
"""


def _python() -> list[str] | None:
    """One that nobody can start, with what we need to be imported: root's own is often root's alone."""
    paths = os.pathsep.join([str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))])
    for program in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        command = ["env", f"PYTHONPATH={paths}", program]
        check = [*command, "-c", "import reproq.executor.child, pydantic_core"]
        options: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        try:
            if subprocess.run(check, capture_output=True, cwd="/", check=False, **options).returncode == 0:
                return command
        except PermissionError:
            continue
    return None


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that nobody may enter; pytest's own is root's alone."""
    path = Path(tempfile.mkdtemp(prefix="reproq-siblings-"))
    path.chmod(0o755)
    (path / "app.py").write_text(APP)
    yield path
    shutil.rmtree(path)


def test_a_task_cant_open_what_belongs_to_its_sibling(folder: Path) -> None:
    python = _python()
    if python is None:
        pytest.skip("no Python here that a user without rights could start")
    options: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    command = [*python, "-m", "reproq.executor.child", "app"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": folder, "text": True}
    with subprocess.Popen(command, **pipes, **options) as one, subprocess.Popen(command, **pipes, **options) as two:
        assert one.stdin and one.stdout and two.stdin and two.stdout
        assert all("opens" in json.loads(child.stdout.readline())["types"] for child in (one, two) if child.stdout)
        open_one = subprocess.Popen(["sleep", "60"], **options)  # the ordinary case, or the test would prove nothing
        try:
            assert _seen(one, open_one.pid)["environ"] == "opened"
            assert set(_seen(one, two.pid).values()) == {"refused"}
        finally:
            open_one.kill()
            open_one.wait()
            one.stdin.close()
            two.stdin.close()


def _seen(child: subprocess.Popen[str], pid: int) -> dict[str, str]:
    assert child.stdin and child.stdout
    order = {"v": 1, "do": "run", "id": pid, "claim_no": 1, "worker_id": "w", "task_type": "opens", "attempt": 1}
    order |= {"queue_name": "q", "max_attempts": 1, "deadline_s": None, "idempotency_key": "k", "payload": {"pid": pid}}
    child.stdin.write(json.dumps(order) + "\n")
    child.stdin.flush()
    answer = json.loads(child.stdout.readline())
    assert answer["success"], answer
    found: dict[str, str] = answer["payload"]
    return found
