"""The folder of an embedded server: what lies in it, who may hold it, and the locks that say so.

data/             PGDATA
credentials.json  port and passwords, 0600
server.log        what the server says
start.lock        held while one process starts or stops the server
starter.lock      held by the process that started it, for as long as that lives: nobody holds it = whoever
                  joins next inherits the duty to stop it
server.lock       held by the server itself and all its backends, which inherit the descriptor: a truth that
                  postmaster.pid can't give (pids are reused, and another container has its own)
"""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reproq.db.errors import EmbeddedError

LOGINS = ("postgres", "reproq_worker", "reproq_app_login")
LOCK_WAIT_S = 120


class Folder:
    """Paths, locks and credentials of one server's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"
        self.log = path / "server.log"
        self._credentials = path / "credentials.json"

    def make(self) -> None:
        """Make the folder, private but for root's, which the server's own uid must be able to cross."""
        try:
            if not self.path.exists():
                self.path.mkdir(parents=True)
                self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
            elif not self._is_ours():
                raise EmbeddedError(
                    f"{self.path} isn't empty and holds no embedded server: name an empty or new folder with"
                    f" --embedded-dir"
                )
            os.close(self._open("start.lock"))
        except OSError as exc:
            raise self.unusable(exc) from exc

    def _is_ours(self) -> bool:
        names = {found.name for found in self.path.iterdir()}
        return not names or bool(names & {"start.lock", "throwaway.lock"})

    def unusable(self, exc: OSError) -> EmbeddedError:
        """Say that the folder can't be used, and what to do."""
        reason = exc.strerror or str(exc)
        return EmbeddedError(
            f"the embedded server's folder {self.path} can't be used: {reason}."
            " Free some space, mend its rights, or name another folder with --embedded-dir"
        )

    def try_lock(self, name: str) -> int | None:
        """Return a descriptor that holds the lock, or None when somebody else does."""
        fd = self._open(name)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Keep every other process from starting or stopping this server meanwhile."""
        deadline = time.monotonic() + LOCK_WAIT_S
        while (fd := self.try_lock("start.lock")) is None:
            if time.monotonic() > deadline:
                raise EmbeddedError(f"another process has been starting the server in {self.path} for {LOCK_WAIT_S} s")
            time.sleep(0.02)
        try:
            yield
        finally:
            os.close(fd)

    def major(self) -> int | None:
        """Return the major version that the data was made by; None: there is no data yet."""
        try:
            return int((self.data / "PG_VERSION").read_text().split(".")[0])
        except (FileNotFoundError, NotADirectoryError):
            return None

    def postmaster(self) -> tuple[int, int, bool] | None:
        """Return pid, port and readiness as the server wrote them, if it did."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return int(lines[0]), int(lines[3]), lines[7].strip() == "ready"
        except (OSError, IndexError, ValueError):
            return None

    def postmaster_pid(self) -> int | None:
        """Return the pid alone, which the server writes first."""
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def is_home_of(self, pid: int) -> bool:
        """Say whether a process works in our data folder, as a server does."""
        try:
            return str(Path(f"/proc/{pid}/cwd").readlink()) == os.path.realpath(self.data)
        except PermissionError:  # root in a container may not look into the server's uid: believe the program's name
            return Path(f"/proc/{pid}/comm").read_text().startswith("postgres")
        except OSError:
            return False  # gone, or a zombie

    def credentials(self) -> dict[str, Any]:
        """Return port and passwords, made up on the first call."""
        try:
            found: dict[str, Any] = json.loads(self._credentials.read_text())
            return found
        except FileNotFoundError:
            if self.major() is not None:
                raise EmbeddedError(
                    f"{self._credentials} is missing, so the passwords of the data beside it are unknown:"
                    " put the file back, or name another folder with --embedded-dir"
                ) from None
        except ValueError as exc:
            raise EmbeddedError(f"{self._credentials} is damaged ({exc}): put it back from a copy") from exc
        made = {"port": None, "passwords": {login: secrets.token_urlsafe(24) for login in LOGINS}}
        self.save(made)
        return made

    def save(self, credentials: dict[str, Any]) -> None:
        """Write port and passwords; a crash leaves the old file or the new one."""
        fresh = self._credentials.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        self.write_new(fresh.name, json.dumps(credentials))
        fresh.replace(self._credentials)

    def write_new(self, name: str, text: str) -> None:
        """Write a file that only its owner can read, and make sure of it on disk."""
        with os.fdopen(self._open(name), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def open_log(self) -> int:
        """Open the log for appending; one older log is kept when it has grown."""
        if self.log.exists() and self.log.stat().st_size > 16 << 20:
            self.log.replace(self.log.with_suffix(".log.1"))
        return self._open(self.log.name, os.O_APPEND)

    def _open(self, name: str, flags: int = 0) -> int:
        fd = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | flags, 0o600)
        if os.geteuid() == 0 and (uid := self.path.stat().st_uid):
            os.fchown(fd, uid, -1)  # the folder is a normal user's: what root leaves there must stay usable to it
        return fd
