"""The tasks of the benchmark, as a user would write them."""

from __future__ import annotations

import time

from reproq.tasks import task

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` would cost every child its import
    from typing import Any

    Payload = dict[str, Any]


@task("bench.noop")
def noop(payload: Payload) -> Payload:
    return {"n": payload["n"]}


@task("bench.mark")
def mark(payload: Payload) -> Payload:
    """When its first line ran, on the clock that all processes of a host share."""
    return {"at": time.clock_gettime(time.CLOCK_MONOTONIC)}


@task("bench.cpu")
def cpu(payload: Payload) -> Payload:
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        sum(range(300))
    return {"n": payload["n"]}


@task("bench.sleep")
def sleep(payload: Payload) -> Payload:
    time.sleep(payload.get("s", 0.02))
    return {"n": payload["n"]}
