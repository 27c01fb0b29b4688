"""Making PGDATA and starting the server on a free port."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproq.db import keeper
from reproq.db.embedded import identity as identities
from reproq.db.embedded.binaries import Binaries
from reproq.db.embedded.folder import Folder
from reproq.db.embedded.identity import Identity
from reproq.db.errors import EmbeddedError

HOST = "127.0.0.1"
START_S = 60
ABANDON_S = 10
PORTS_TRIED = 8
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # a path of over 107 characters would be refused, and loopback does
    "password_encryption": "scram-sha-256",
    "max_connections": "200",
    "lc_messages": "C",
}


@dataclass(frozen=True)
class Started:
    """A server that is ready: its own pid, its port, and our child (the server, or the keeper of a throw-away one)."""

    pid: int
    port: int
    process: "subprocess.Popen[bytes]"


@dataclass(frozen=True)
class Launch:
    """Everything that decides how a server is started."""

    files: Folder
    binaries: Binaries
    identity: Identity
    settings: Mapping[str, str]
    kept: bool

    def start(self, credentials: dict[str, Any], lock: int) -> Started:
        """Make the data if there is none, and start the server on last time's port or a free one."""
        if self.files.major() is None:
            self._initialise(credentials["passwords"]["postgres"])
        own(self.files.data, self.identity)
        _forget_stale_pid(self.files)
        for port in _ports(credentials["port"]):
            if started := self._try_port(port, lock):
                return started
        raise EmbeddedError(f"no free port was found on {HOST}; see {self.files.log}")

    def abandon(self, process: "subprocess.Popen[bytes]") -> None:
        """Stop a server that nobody will be told about."""
        process.send_signal(signal.SIGINT if self.kept else signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ABANDON_S)

    def _initialise(self, password: str) -> None:
        """Make PGDATA beside its place and move it there when it is whole."""
        fresh, secret = self.files.path / "data.new", self.files.path / "password.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        secret.unlink(missing_ok=True)
        self.files.write_new(secret.name, password)
        for path in (fresh, secret):
            own(path, self.identity)
        try:
            self._initdb(fresh, secret)
        finally:
            secret.unlink()
        fresh.rename(self.files.data)

    def _initdb(self, fresh: Path, secret: Path) -> None:
        locale = ["--locale=C", "--encoding=UTF8"]
        if self.binaries.major >= 17:
            locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        options = ["-D", str(fresh), "-U", "postgres", "-A", "scram-sha-256", f"--pwfile={secret}", *locale]
        command = [*self.identity.prefix, self.binaries.program("initdb"), *options, *([] if self.kept else ["-N"])]
        done = subprocess.run(command, check=False, capture_output=True, text=True, **self._common())
        if done.returncode:
            shutil.rmtree(fresh, ignore_errors=True)
            raise EmbeddedError(f"initdb failed in {self.files.path}: {done.stderr.strip()[-500:]}")

    def _try_port(self, port: int, lock: int) -> Started | None:
        """Start the server on a port and wait until it is ready; None: the port is taken."""
        log = self.files.open_log()
        began = os.fstat(log).st_size
        process = self._spawn(port, lock, log)
        os.close(log)
        try:
            if pid := self._ready_pid(process, port):
                return Started(pid, port, process)
        except BaseException:
            self.abandon(process)
            raise
        said = self.files.log.read_bytes()[began:].decode(errors="replace")
        if "could not bind" in said or "Address already in use" in said:
            return None
        raise EmbeddedError(
            f"PostgreSQL didn't start in {self.files.path}: {_telling(said)} (all it said is in {self.files.log})"
        )

    def _spawn(self, port: int, lock: int, log: int) -> "subprocess.Popen[bytes]":
        settings = {**_SETTINGS, **self.settings, "port": str(port)}
        server = [*self.identity.prefix, self.binaries.program("postgres"), "-D", str(self.files.data)]
        server += [f"--{name}={value}" for name, value in settings.items()]
        common = self._common()
        if not self.kept:
            server = keeper.command(os.getpid(), str(self.files.path), lock, self.identity.uid, server)
            common = {"cwd": "/", "env": identities.environment()}
        return subprocess.Popen(
            server, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock], start_new_session=True, **common
        )

    def _ready_pid(self, process: "subprocess.Popen[bytes]", port: int) -> int | None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            found = self.files.postmaster()
            if found and found[1:] == (port, True):
                return found[0]
            if process.poll() is not None:
                return None
            time.sleep(0.01)
        raise EmbeddedError(f"PostgreSQL in {self.files.path} wasn't ready after {START_S} s; see {self.files.log}")

    def _common(self) -> dict[str, Any]:
        return {"cwd": "/", "env": identities.environment(), **self.identity.popen_user()}


def own(path: Path, identity: Identity) -> None:
    """Hand a file or tree to the uid that the server runs under (as root only; the way to run may have changed)."""
    if identity.owner is None or path.stat().st_uid == identity.owner:
        return
    for root, _, files in os.walk(path):
        for name in (root, *(os.path.join(root, file) for file in files)):
            os.chown(name, identity.owner, identity.owner, follow_symlinks=False)
    os.chown(path, identity.owner, identity.owner, follow_symlinks=False)


def _forget_stale_pid(files: Folder) -> None:
    """Remove the postmaster.pid of a server that is gone; we hold server.lock, so none of ours lives.

    PostgreSQL does it too, but refuses to start when the number now belongs to another program of the same user, and
    until then the file would look like a server that is ready.
    """
    if not (found := files.postmaster_pid()):
        return
    if files.is_home_of(found):
        raise EmbeddedError(f"PostgreSQL (pid {found}) was started in {files.data} by other means: stop it first")
    (files.data / "postmaster.pid").unlink(missing_ok=True)


def _ports(kept: int | None) -> Iterator[int]:
    """Offer the port of last time, then free ones from below the range that outgoing connections use."""
    if kept and _is_free(kept):
        yield kept
    tried = 0
    for port in random.sample(range(20_000, 32_000), 1_000):
        if tried < PORTS_TRIED and _is_free(port):
            tried += 1
            yield port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _telling(said: str) -> str:
    lines = [line for line in said.splitlines() if "FATAL" in line or "PANIC" in line or "could not" in line]
    return (lines or said.splitlines() or ["it said nothing"])[-1].strip()
