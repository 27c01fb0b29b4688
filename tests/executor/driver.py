"""Plays the runner for the executor's tests: starts guards and children, and waits for what they say."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reproq.executor.guard_client import Event, Guard, child_command

PATIENCE_S = 20.0
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},  # it would hide lost output
    "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
}


def alive(pid: int) -> bool:
    """A zombie is dead: it does nothing any more."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
    until = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s: {what}")
        select.select([], [], [], 0.002)
    return value


def wait_dead(*pids: int, seconds: float = PATIENCE_S) -> None:
    wait_for(lambda: not any(map(alive, pids)), f"{pids} to be dead", seconds)


def processes_with(text: str) -> list[int]:
    """Pids of the living whose command line holds `text`."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and alive(int(folder.name)):
            try:
                if text.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


class Reader:
    """Lines and bytes of a pipe, each with a deadline."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.data = b""
        self.ended = False

    def more(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], max(0.0, seconds))
        if ready:
            chunk = os.read(self.fd, 1 << 20)
            self.ended = not chunk
            self.data += chunk
        return bool(ready) and not self.ended

    def line(self, seconds: float = PATIENCE_S) -> bytes:
        until = time.monotonic() + seconds
        while b"\n" not in self.data:
            if not self.more(until - time.monotonic()):
                raise AssertionError(f"no line within {seconds} s (end of file: {self.ended}): {self.data!r}")
        line, _, self.data = self.data.partition(b"\n")
        return line

    def until(self, text: bytes, seconds: float = PATIENCE_S) -> bytes:
        until = time.monotonic() + seconds
        while text not in self.data:
            if not self.more(until - time.monotonic()):
                raise AssertionError(f"no {text!r} within {seconds} s: {self.data!r}")
        return self.data

    def rest(self, seconds: float = PATIENCE_S) -> bytes:
        until = time.monotonic() + seconds
        while self.more(until - time.monotonic()):
            pass
        assert self.ended, f"no end of file within {seconds} s: {self.data!r}"
        return self.data

    def now(self) -> bytes:
        while self.more(0):
            pass
        return self.data

    def close(self) -> None:
        os.close(self.fd)


class Started:
    """What the test holds of a child that a guard started."""

    def __init__(self, stdin: int, out: Reader, log: Reader) -> None:
        self.stdin = stdin
        self.out = out
        self.log = log

    def close(self) -> None:
        for fd in (self.stdin, self.out.fd, self.log.fd):
            os.close(fd)


class GuardDriver:
    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.guard = Guard.start(ENVIRONMENT if env is None else env)
        self.seen: list[Event] = []
        self._open: list[Started] = []

    def start(self, key: str, *argv: str, **options: Any) -> Started:
        """Sends the order; doesn't wait for it."""
        stdin_read, stdin = os.pipe()
        out, out_write = os.pipe()
        log, log_write = os.pipe()
        env = options.pop("env", {})
        try:
            self.guard.start_child(key, argv, env, [stdin_read, out_write, log_write], **options)
        finally:
            for fd in (stdin_read, out_write, log_write):
                os.close(fd)
        started = Started(stdin, Reader(out), Reader(log))
        self._open.append(started)
        return started

    def shell(self, key: str, script: str, **options: Any) -> Started:
        return self.start(key, "/bin/sh", "-c", script, **options)

    def python(self, key: str, script: str, **options: Any) -> Started:
        return self.start(key, sys.executable, "-I", "-S", "-c", script, **options)

    def run(self, key: str, script: str, **options: Any) -> bytes:
        """A shell script's output, once it has ended."""
        started = self.shell(key, script, **options)
        self.wait("exited", key)
        return started.out.rest()

    def wait(self, event: str, key: str | None = None, seconds: float = PATIENCE_S) -> Event:
        """The next such event; others stay for later waits."""
        until = time.monotonic() + seconds
        while (found := self._take(event, key)) is None:
            left = until - time.monotonic()
            if left <= 0 or self.guard.fileno() < 0:
                raise AssertionError(f"no {event} of {key} within {seconds} s; seen: {self.seen}")
            select.select([self.guard], [], [], left)
            self.seen += self.guard.receive()
        return found

    def _take(self, event: str, key: str | None) -> Event | None:
        for index, each in enumerate(self.seen):
            if each["event"] == event and key in (None, each.get("key")):
                return self.seen.pop(index)
        return None

    def close(self) -> None:
        """By its own stop where it can: a killed guard leaves grandchildren behind."""
        self.guard.stop(timeout=5)
        for started in self._open:
            started.close()


class ChildDriver:
    """A Python child without a guard, spoken to over its pipes."""

    def __init__(self, folder: Path, *modules: str, env: Mapping[str, str] | None = None, ready: bool = True) -> None:
        log, log_write = os.pipe()
        self.process = subprocess.Popen(
            child_command(modules),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_write,
            cwd=folder,
            env={**ENVIRONMENT, **(env or {})},
        )
        os.close(log_write)
        assert self.process.stdin and self.process.stdout
        self.stdin = self.process.stdin.fileno()
        self.out = Reader(self.process.stdout.fileno())
        self.log = Reader(log)
        self.ready: Event = json.loads(self.out.line()) if ready else {}
        self._last_id = 0

    def send(self, **message: Any) -> None:
        data = json.dumps({"v": 1, **message}).encode() + b"\n"
        while data:
            data = data[os.write(self.stdin, data) :]

    def order(self, type_: str, payload: Any = None, **fields: Any) -> int:
        """Sends one task and answers its id; doesn't wait."""
        self._last_id += 1
        order = {"id": self._last_id, "claim_no": 1, "worker_id": "host/1/uuid", "task_type": type_, "attempt": 1}
        order |= {"queue_name": "default", "max_attempts": 3, "deadline_s": None}
        order |= {"idempotency_key": f"task-{self._last_id}", "payload": {} if payload is None else payload}
        self.send(do="run", **{**order, **fields})
        return self._last_id

    def answer(self, seconds: float = PATIENCE_S) -> Event:
        envelope: Event = json.loads(self.out.line(seconds))
        return envelope

    def run(self, type_: str, payload: Any = None, **fields: Any) -> Event:
        """One task and its envelope; the log is read meanwhile, as a runner does."""
        number = self.order(type_, payload, **fields)
        until = time.monotonic() + PATIENCE_S
        while b"\n" not in self.out.data:
            ready, _, _ = select.select([self.out.fd, self.log.fd], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"no envelope; log: {self.log.data!r}"
            for reader in (self.out, self.log):
                if reader.fd in ready:
                    reader.more(0)
            assert not self.out.ended, f"the child ended; log: {self.log.data!r}"
        envelope = self.answer()
        assert (envelope["v"], envelope["id"]) == (1, number)
        self.log.now()
        return envelope

    def end(self) -> int:
        """Says nothing more, and answers the exit status."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.kill()
        self.process.wait()
        for end in (self.process.stdin, self.process.stdout):
            end.close()
        self.log.close()
