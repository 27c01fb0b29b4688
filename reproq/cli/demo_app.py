"""The demo's tasks: what an app of yours looks like (there, `from reproq import Context, task`)."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from reproq.tasks import Context, task


@task("demo.greet")
def greet(payload: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.2)
    return {"greeting": f"Hello, {payload['name']}!"}


@task("demo.flaky_payment", backoff_base=0.4)
def pay(payload: dict[str, Any], ctx: Context) -> dict[str, Any]:
    if ctx.attempt == 1:
        raise ConnectionError("the payment service is busy")
    return {"invoice": payload["invoice"], "paid": True}


@task("demo.crash", backoff_base=0.4)
def crash(_payload: dict[str, Any], ctx: Context) -> dict[str, Any]:
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)  # as a segfault or the kernel's out-of-memory killer would
    return {"survived": True}


@task("demo.later")
def remind(payload: dict[str, Any]) -> dict[str, Any]:
    return {"reminded": payload["whom"]}
