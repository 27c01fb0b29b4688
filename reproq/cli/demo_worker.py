"""The demo's worker: a real one, in a process of its own, as a user would start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from reproq.config.options import KNOWN
from reproq.executor.kernel import PR_SET_PDEATHSIG, prctl

APP = "reproq.cli.demo_app"
STOP_S = 15.0
_FLAGS = [*("--config", os.devnull), *("--app", APP), *("--processes", "2"), *("--worker-id", "demo")]


class Worker:
    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        self._process = process
        self._log = log

    @property
    def status(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._process.poll()

    def stop(self) -> int:
        """SIGTERM, as a service manager does; it drains and ends with 0."""
        if self.status is None:
            self._process.terminate()
        try:
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def last_lines(self, count: int = 15) -> str:
        self._log.seek(0)
        return b"\n".join(self._log.read().splitlines()[-count:]).decode(errors="replace")


@contextmanager
def started(dsn: str, folder: Path, mail_server: str) -> Iterator[Worker]:
    """A worker that is gone afterwards, also when this process is killed."""
    command, cwd = _command(folder)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=cwd,
            env=_environ(dsn, mail_server),
            start_new_session=True,  # Ctrl-C is for the demo, which stops its worker in order
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - no other thread runs yet
        )
        worker = Worker(process, log)
        try:
            yield worker
        finally:
            worker.stop()


def _command(folder: Path) -> tuple[list[str], Path]:
    """From a checkout `python -m cmd.worker`, else the installed package, away from the user's own files."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "cmd" / "worker.py").is_file():
        return [sys.executable, "-m", "cmd.worker", *_FLAGS], checkout
    return [sys.executable, "-m", "reproq", "worker", *_FLAGS], folder


def _environ(dsn: str, mail_server: str) -> dict[str, str]:
    """Without the user's own settings, which may be for another worker; the address isn't for `ps` to see."""
    kept = {name: value for name, value in os.environ.items() if name not in KNOWN and not name.startswith("REPROQ_")}
    mail = {"REPROQ_EMAIL_PROVIDER": "smtp", "REPROQ_SMTP_URL": mail_server, "REPROQ_EMAIL_FROM": "demo@example.org"}
    return kept | mail | {"REPROQ_DATABASE_URL": dsn}


def _die_with_parent() -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
