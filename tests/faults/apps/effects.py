"""The handlers of the fault scenarios. Each writes what it does into the ledger: one O_APPEND write per line."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any

from reproq import Context, task

_LEDGER = os.open(os.environ["FAULTS_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
BEAT_S = 0.02

Payload = dict[str, Any]


def note(kind: str, ctx: Context) -> None:
    ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    os.write(_LEDGER, f"{kind} {ctx.id} {ctx.claim_no} {ctx.attempt} {ns} {os.getpid()}\n".encode())


def beat(ctx: Context, seconds: float) -> None:
    """Live visibly."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(BEAT_S, left))
        note("beat", ctx)


def done(ctx: Context) -> Payload:
    note("effect", ctx)
    note("end", ctx)
    return {"claim": ctx.claim_no, "pid": os.getpid(), "wall": time.time()}


@task("work", backoff_base=0.05, backoff_cap=0.2)
def work(payload: Payload, ctx: Context) -> Payload:
    note("start", ctx)
    time.sleep(payload.get("s", 0))
    return done(ctx)


@task("live", backoff_base=0.05, backoff_cap=0.2)
def live(payload: Payload, ctx: Context) -> Payload:
    note("start", ctx)
    beat(ctx, payload["s"])
    return done(ctx)


@task("stubborn", backoff_base=0.05, backoff_cap=0.2)
def stubborn(payload: Payload, ctx: Context) -> Payload:
    """Ignores TERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("start", ctx)
    beat(ctx, payload["s"])
    return done(ctx)


@task("polite", backoff_base=0.05, backoff_cap=0.2)
def polite(payload: Payload, ctx: Context) -> Payload:
    """Sleeps without a word; a cancel that comes in time ends it before what can't be undone."""
    note("start", ctx)
    time.sleep(payload["s"])
    return done(ctx)


@task("hog", backoff_base=0.05, backoff_cap=0.2)
def hog(payload: Payload, ctx: Context) -> Payload:
    """Holds the interpreter lock: not one other Python instruction runs in this process meanwhile."""
    note("start", ctx)
    ctypes.PyDLL(None).usleep(int(payload["s"] * 1e6))
    return done(ctx)


@task("loud", backoff_base=0.05, backoff_cap=0.2)
def loud(payload: Payload, ctx: Context) -> Payload:
    note("start", ctx)
    line = "x" * 1023 + "\n"
    for _ in range(payload["mib"] * 1024):
        sys.stderr.write(line)
    return done(ctx)


@task("talks", backoff_base=0.05, backoff_cap=0.2)
def talks(payload: Payload, ctx: Context) -> Payload:
    """On its standard output, in every way there is, and in the words of the protocol."""
    note("start", ctx)
    print('{"v":1,"id":1,"claim_no":1,"success":true}')
    os.write(1, b'{"v":1}\n')
    libc = ctypes.CDLL(None)
    libc.printf(b"{}\n")
    libc.fflush(None)
    subprocess.run(["echo", '{"success":false}'], check=True)
    return done(ctx)


@task("quick_then_slow", backoff_base=0.05, backoff_cap=0.2)
def quick_then_slow(payload: Payload, ctx: Context) -> Payload:
    """The first execution is soon over, the next one lasts."""
    note("start", ctx)
    beat(ctx, payload["s"] if ctx.claim_no == 1 else payload["then"])
    return done(ctx)


@task("poison", backoff_base=0.05, backoff_cap=0.2)
def poison(payload: Payload, ctx: Context) -> None:
    note("start", ctx)
    _POISONS[payload["how"]]()


def _segfault() -> None:
    ctypes.string_at(0)


def _kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


_POISONS = {
    "segfault": _segfault,
    "abort": os.abort,
    "exit": lambda: os._exit(7),
    "kill": _kill_myself,
}


@task("hungry", backoff_base=0.05, backoff_cap=0.2)
def hungry(payload: Payload, ctx: Context) -> None:
    """Eats until something stops it; its own bound, far beyond the worker's, spares the machine."""
    note("start", ctx)
    kept = [bytearray(16 << 20) for _ in range(128)]
    raise RuntimeError(f"nothing stopped it at {len(kept)} pieces")


def _grandchild(payload: Payload) -> None:
    """It holds our pipes, in a session of its own."""
    subprocess.Popen(["sleep", str(payload["sleeps"])], start_new_session=True)


@task("litters", contain=True, backoff_base=0.05)
def litters(payload: Payload, ctx: Context) -> Payload:
    note("start", ctx)
    _grandchild(payload)
    return done(ctx)


@task("litters_and_hangs", backoff_base=0.05)
def litters_and_hangs(payload: Payload, ctx: Context) -> None:
    note("start", ctx)
    _grandchild(payload)
    time.sleep(3600)
