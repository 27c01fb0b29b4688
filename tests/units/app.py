"""What the units' tests run, as a module of an operator's app. A gate is a file in /run/gates, which units may read."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from reproq import Context, task

GATES = Path("/run/gates")


@task("unit.greet")
def greet(_payload: Any, ctx: Context) -> dict[str, Any]:
    return {"queue": ctx.queue_name, "uid": os.getuid(), "environ": dict(os.environ)}


@task("unit.gate")
def gate(payload: Any, _ctx: Context) -> str:
    while not (GATES / payload["gate"]).exists():
        time.sleep(0.02)
    return "went through"


@task("unit.stubborn", max_attempts=3)
def stubborn(_payload: Any, _ctx: Context) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


@task("unit.killed", max_attempts=1)
def killed(_payload: Any, _ctx: Context) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@task("unit.hangs", max_attempts=1, timeout=0.5)
def hangs(_payload: Any, _ctx: Context) -> None:
    while True:
        time.sleep(60)


@task("unit.leaves", max_attempts=1)
def leaves(_payload: Any, _ctx: Context) -> None:
    """A grandchild in a session of its own, and the end."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(3600)
    os._exit(3)


@task("big.eats", max_attempts=1)
def eats(_payload: Any, _ctx: Context) -> int:
    return len(bytearray(1 << 30))


@task("unit.reaches", max_attempts=1)
def reaches(payload: Any, _ctx: Context) -> dict[str, str]:
    """What becomes of each of these attempts."""
    return {line: _said(line) for line in payload["lines"]}


def _said(line: str) -> str:
    try:
        return repr(eval(line))
    except Exception as problem:  # noqa: BLE001 - any refusal is an answer
        return type(problem).__name__
