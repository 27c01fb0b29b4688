"""The jobs that every peer runs: payload n, result {"n": n}.

BENCH_FIRST: the file that the first job to start makes, with its time in it. BENCH_UDP: a port of the bench that is
told when a job starts and ends (latency and crash runs only).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time

_first = os.environ.get("BENCH_FIRST")
_port = int(os.environ.get("BENCH_UDP", "0"))
_socket: socket.socket | None = None


def _tell(what: str, n: int, now: float) -> None:
    global _socket
    if not _port:
        return
    _socket = _socket or socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    _socket.sendto(f"{what} {n} {now!r}".encode(), ("127.0.0.1", _port))


def _start(n: int) -> None:
    global _first
    now = time.time()
    _tell("start", n, now)
    if _first:
        try:
            with open(_first, "x") as file:
                file.write(repr(now))
        except FileExistsError:
            pass
        _first = None


def _end(n: int) -> dict[str, int]:
    _tell("end", n, time.time())
    return {"n": n}


def noop(n: int) -> dict[str, int]:
    _start(n)
    return _end(n)


def cpu5ms(n: int) -> dict[str, int]:
    _start(n)
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        sum(range(300))
    return _end(n)


def sleep20ms(n: int) -> dict[str, int]:
    _start(n)
    time.sleep(0.02)
    return _end(n)


def sleep2s(n: int) -> dict[str, int]:
    _start(n)
    time.sleep(2)
    return _end(n)


def kill9(n: int) -> dict[str, int]:
    _start(n)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


KINDS = {job.__name__: job for job in (noop, cpu5ms, sleep20ms, sleep2s, kill9)}


async def async_noop(n: int) -> dict[str, int]:
    return noop(n)


async def async_sleep20ms(n: int) -> dict[str, int]:
    _start(n)
    await asyncio.sleep(0.02)
    return _end(n)


async def async_sleep2s(n: int) -> dict[str, int]:
    _start(n)
    await asyncio.sleep(2)
    return _end(n)


# What an asyncio worker would register: coroutines where they help, plain functions for the rest.
ASYNC_KINDS = {**KINDS, "noop": async_noop, "sleep20ms": async_sleep20ms, "sleep2s": async_sleep2s}
