"""`reproq demo` as a newcomer runs it, and what it leaves behind: nothing."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.processes import running
from tests.cli.screens import Screen

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60
TYPES = ["demo.greet", "demo.flaky_payment", "demo.crash", "demo.nobody", "db_function", "demo.later"]


class Demo:
    """A demo whose temporary folders and processes can be found again."""

    def __init__(self, folder: Path, cwd: Path, *arguments: str, stdout: int = subprocess.PIPE) -> None:
        self._folder = folder
        self._mark = uuid.uuid4().hex
        environ = os.environ | {"TMPDIR": str(folder), "DEMO_MARK": self._mark, "PYTHONPATH": str(cwd)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reproq", "demo", *arguments],
            cwd=cwd,
            # The user's own settings must not reach the demo's worker.
            env=environ | {"REPROQ_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x", "REPROQ_QUEUES": "none"},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def output(self) -> str:
        return self.process.communicate(timeout=PATIENCE_S)[0].decode()

    def left_processes(self) -> list[str]:
        return [
            command
            for pid, command, environment in running()
            if pid != self.process.pid and (str(self._folder) in command or self._mark in environment)
        ]

    def left_files(self) -> list[str]:
        return sorted(path.name for path in self._folder.iterdir())

    def wait_for_worker(self) -> None:
        wait_until(lambda: any("cmd.worker" in command for command in self.left_processes()))

    def assert_nothing_is_left(self) -> None:
        assert self.left_processes() == []
        assert self.left_files() == []


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    made = tmp_path / "temp"
    made.mkdir()
    return made


def test_the_demo_tells_its_story_and_leaves_nothing_behind(temp: Path) -> None:
    demo = Demo(temp, ROOT)
    text = demo.output()
    assert demo.process.returncode == 0, text
    assert "\x1b" not in text
    progress, _, table = text.partition("╭")
    assert "RETRYING" in progress
    for task_type in TYPES:
        assert task_type in table
    for told in ("raised → succeeded", "killed → succeeded", "no_handler_registered", "Hello, Ada!", "5050"):
        assert told in table, text
    demo.assert_nothing_is_left()


def test_on_a_terminal_the_demo_shows_a_live_table(temp: Path) -> None:
    parent, child = pty.openpty()
    demo = Demo(temp, ROOT, stdout=child)
    os.close(child)
    text = bytearray()
    with suppress(OSError):  # the end of a terminal
        while data := os.read(parent, 65536):
            text += data
    os.close(parent)
    assert demo.process.wait(PATIENCE_S) == 0, text.decode(errors="replace")
    assert b"\x1b[" in text
    assert "succeeded" in text.decode(errors="replace")
    demo.assert_nothing_is_left()


def test_the_live_table_gives_way_to_the_last_one(temp: Path) -> None:
    with Screen("demo", columns=100, lines=110, environ={"TMPDIR": str(temp)}) as screen:
        text = screen.wait_for("│ demo.later")
        assert "watching them" in text
        assert screen.end() == 0
        assert screen.text.count("│ demo.later") == 1
        assert "every task ended as it should, and the email arrived once" in screen.text
    assert list(temp.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_demo_leaves_nothing_behind(temp: Path, number: signal.Signals) -> None:
    demo = Demo(temp, ROOT)
    demo.wait_for_worker()
    os.killpg(demo.process.pid, number)
    text = demo.output()
    assert demo.process.returncode == 130
    assert "Traceback" not in text
    demo.assert_nothing_is_left()


def test_a_demo_stopped_while_its_server_starts_leaves_nothing_behind(temp: Path) -> None:
    demo = Demo(temp, ROOT)
    wait_until(lambda: demo.left_files() != [])
    os.killpg(demo.process.pid, signal.SIGINT)
    assert "Traceback" not in demo.output()
    assert demo.process.returncode == 130
    demo.assert_nothing_is_left()


def test_a_killed_demo_leaves_nothing_running(temp: Path) -> None:
    demo = Demo(temp, ROOT)
    demo.wait_for_worker()
    demo.process.kill()
    demo.output()
    wait_until(lambda: demo.left_processes() == [])
    wait_until(lambda: demo.left_files() == [])


def test_the_demo_runs_from_an_installed_package(temp: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "reproq", installed / "reproq", ignore=ignore)
    if not (installed / "reproq/migrations").exists():
        shutil.copytree(ROOT / "migrations", installed / "reproq/migrations")
    demo = Demo(temp, installed, "--plain")
    text = demo.output()
    assert demo.process.returncode == 0, text
    demo.assert_nothing_is_left()
