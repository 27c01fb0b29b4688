"""The worker under test: the real command in a process of its own, with its default settings but for what is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from reproq.bench import procfs
from reproq.bench.figures import LeftOut
from reproq.bench.sampler import Parts
from reproq.config.options import KNOWN
from reproq.executor.kernel import PR_SET_PDEATHSIG, prctl

STOP_S = 40.0
START_S = 60.0
APP = "reproq.bench.app"


class Worker:
    def __init__(self, process: subprocess.Popen[bytes], log: Path, spawned_at: float) -> None:
        self.process = process
        self.log = log
        self.spawned_at = spawned_at
        self._known: Parts = {}
        self._known_at = 0.0

    @property
    def pid(self) -> int:
        return self.process.pid

    def check(self) -> None:
        status = self.process.poll()
        if status is not None:
            raise LeftOut(f"the worker ended with status {status}: {self.last_line()}")

    def wait_ready(self) -> None:
        until = time.monotonic() + START_S
        while b'"worker_started"' not in self.log.read_bytes():
            self.check()
            if time.monotonic() > until:
                raise LeftOut(f"the worker wasn't ready after {START_S:g} s: {self.last_line()}")
            time.sleep(0.01)

    def parts(self) -> Parts:
        """Its processes by duty. Who belongs to whom is asked once a second: reading all of /proc has its price."""
        now = time.monotonic()
        if now - self._known_at > 1 or not self._known:
            everyone = procfs.everyone()
            guards = [pid for pid, parent in everyone.items() if parent == self.pid]
            children = [pid for guard in guards for pid in procfs.family(guard, everyone) if pid != guard]
            system = [pid for pid in children if "system_child" in procfs.command(pid)]
            plain = [pid for pid in children if pid not in system]
            self._known = {"runner": [self.pid], "guard": guards, "child": plain, "system child": system}
            self._known_at = now
        return self._known

    def last_line(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        telling = [line for line in lines if '"ERROR"' in line or "error:" in line or "Error" in line] or lines
        return (telling or ["it said nothing"])[-1][:400]

    def events(self, name: str) -> int:
        return sum(1 for line in self.log.read_text(errors="replace").splitlines() if _event(line) == name)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Its guard ends the children."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def _event(line: str) -> str | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found.get("event") if isinstance(found, dict) else None


@contextmanager
def started(dsn: str, log: Path, flags: Sequence[str] = (), app: str = APP) -> Iterator[Worker]:
    command, cwd = _command(log.parent)
    arguments = ["--config", os.devnull, "--app", app, *flags]
    with log.open("wb") as out:
        spawned_at = time.time()
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=cwd,
            env=_environ(dsn),
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - it calls one function of libc and nothing of Python's
        )
    worker = Worker(process, log, spawned_at)
    try:
        yield worker
    except BaseException:
        worker.kill()
        raise
    else:
        worker.stop()


def _command(elsewhere: Path) -> tuple[list[str], Path]:
    """From a checkout `python -m cmd.worker`, else the installed package, away from the user's own files."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "cmd" / "worker.py").is_file():
        return [sys.executable, "-m", "cmd.worker"], checkout
    return [sys.executable, "-m", "reproq", "worker"], elsewhere


def _environ(dsn: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in KNOWN and not name.startswith("REPROQ_")}
    return kept | {"REPROQ_DATABASE_URL": dsn}


def _die_with_parent() -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
