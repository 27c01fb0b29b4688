"""A peer at work: its adapter, its fresh store, its worker processes, and what they use."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.environments import Environments
from bench.peers.known import Peer
from bench.redis import RedisServer
from reproq.bench import procfs
from reproq.bench.figures import LeftOut
from reproq.bench.lab import Lab
from reproq.bench.sampler import Parts
from reproq.db.connect import connect

STOP_S = 8.0
START_S = 60.0


@dataclass
class Bed:
    """What every peer runs on."""

    lab: Lab
    environments: Environments
    redis: RedisServer
    adapters: Path

    @contextmanager
    def peer(self, peer: Peer, concurrency: int, udp: int = 0) -> Iterator[Guest]:
        """In a fresh database or an empty Redis."""
        command, environ = self._command(peer)
        environ |= {"BENCH_VARIANT": peer.variant, "BENCH_C": str(concurrency), "BENCH_UDP": str(udp or 0)}
        if peer.needs_redis:
            environ |= {"BENCH_REDIS": self.redis.url(0), "BENCH_REDIS2": self.redis.url(1)}
            self.redis.clear()
            with _guest(self, peer, concurrency, command, environ) as guest:
                yield guest
            return
        name = f"peer_{peer.key.replace('.', '_').replace('-', '_')}"
        self.lab.server.make(name, template="template0")
        try:
            address = self.lab.server.address(name)
            with _guest(self, peer, concurrency, command, environ | {"BENCH_DSN": address}) as guest:
                guest.address = address
                yield guest
        finally:
            self.lab.server.drop(name)

    def _command(self, peer: Peer) -> tuple[list[str], dict[str, str]]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        if peer.packages:
            node, home = self.environments.node(peer.environment, peer.packages)
            return [str(node), str(self.adapters / peer.script)], kept | {"BENCH_NODE_HOME": str(home)}
        python = self.environments.python(peer.environment, peer.requirements)
        return [str(python), str(self.adapters / peer.script)], kept | {"PYTHONPATH": str(self.adapters)}

    def store_parts(self, peer: Peer) -> Parts:
        return {"server": procfs.family(self.redis.pid)} if peer.needs_redis else self.lab.server_parts()


class Guest:
    """One peer with its adapter; started by Bed.peer."""

    def __init__(self, bed: Bed, peer: Peer, concurrency: int, environ: dict[str, str], log: Path) -> None:
        self.bed = bed
        self.peer = peer
        self.concurrency = concurrency
        self.environ = environ
        self.log = log
        self.address = ""
        self.adapter: subprocess.Popen[str] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self._commands: list[list[str]] = []
        self._known: Parts = {}
        self._known_at = -1.0

    def ask(self, do: str, **values: Any) -> Any:
        assert self.adapter and self.adapter.stdin and self.adapter.stdout
        try:
            self.adapter.stdin.write(json.dumps({"do": do, **values}) + "\n")
            self.adapter.stdin.flush()
            line = self.adapter.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise LeftOut(f"its adapter ended: {self.last_line()}")
        answer = json.loads(line)
        if "error" in answer:
            raise LeftOut(f"{do}: {answer['error']}")
        return answer["answer"]

    def settle(self) -> None:
        """As for our own tables: what autovacuum and the checkpointer would have done."""
        if self.address:
            with connect(self.address, name="reproq bench") as connection:
                connection.execute("vacuum (analyze)")
                connection.execute("checkpoint")

    def start(self) -> None:
        self._commands = self.ask("worker", c=self.concurrency)
        self.workers = [self._spawn(command) for command in self._commands]

    def restart_dead(self) -> int:
        """As a service manager would; answers how many had ended."""
        ended = [number for number, process in enumerate(self.workers) if process.poll() is not None]
        for number in ended:
            self.workers[number] = self._spawn(self._commands[number])
        return len(ended)

    @property
    def first(self) -> Path:
        return Path(self.environ["BENCH_FIRST"])

    def first_start(self) -> float:
        """When the first job began, in its own words."""
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                return float(self.first.read_text())
            except (OSError, ValueError):
                time.sleep(0.005)
            if all(process.poll() is not None for process in self.workers):
                raise LeftOut(f"its worker ended: {self.last_line()}")
        raise LeftOut(f"no job began within {START_S:g} s: {self.last_line()}")

    def parts(self) -> Parts:
        if time.monotonic() - self._known_at > 1:
            everyone = procfs.everyone()
            pids = [pid for process in self.workers for pid in procfs.family(process.pid, everyone)]
            self._known, self._known_at = {"worker": pids, **self.bed.store_parts(self.peer)}, time.monotonic()
        return self._known

    def stop(self) -> None:
        """Every process that came of it, by pid."""
        family = {pid for process in self.workers for pid in procfs.family(process.pid)}
        for process in self.workers:
            process.terminate()
        until = time.monotonic() + STOP_S
        while time.monotonic() < until and any(process.poll() is None for process in self.workers):
            time.sleep(0.05)
        here = procfs.everyone()
        for pid in family & set(here):
            _kill(pid)
        for process in self.workers:
            process.wait()
        self.workers = []

    def last_line(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return (lines or ["it said nothing"])[-1][:300]

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.bed.adapters,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@contextmanager
def _guest(bed: Bed, peer: Peer, concurrency: int, command: list[str], environ: dict[str, str]) -> Iterator[Guest]:
    log = bed.lab.log(f"peer-{peer.key}")
    environ["BENCH_FIRST"] = str(log.with_suffix(".first"))
    guest = Guest(bed, peer, concurrency, environ, log)
    quiet = {**environ, "BENCH_FIRST": "", "BENCH_UDP": "0"}
    with log.open("ab") as out:
        guest.adapter = subprocess.Popen(
            command,
            cwd=bed.adapters,
            env=quiet,
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=out,
            start_new_session=True,
        )
    try:
        guest.ask("install")
        yield guest
    finally:
        guest.stop()
        guest.adapter.kill()
        guest.adapter.communicate()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


def listener() -> socket.socket:
    """Where jobs of a latency or crash run report to."""
    ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ear.bind(("127.0.0.1", 0))
    return ear
