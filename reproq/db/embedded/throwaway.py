"""A server in a temporary folder, gone with whoever asked for it."""

import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from reproq.db.embedded.binaries import Binaries
from reproq.db.embedded.folder import Folder
from reproq.db.embedded.server import EmbeddedServer

THROWAWAY = "reproq-throwaway-"
# For tests only: a crash of the machine loses everything.
UNSAFE_AND_FAST = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "512MB"}
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def throwaway(
    settings: Mapping[str, str] | None = None, binaries: Binaries | None = None, parent: Path | None = None
) -> Iterator[EmbeddedServer]:
    """Run a server in a temporary folder; both are gone afterwards, even if this process is killed."""
    parent = parent or _temporary()
    sweep(parent)
    with _claimed_folder(parent) as folder:
        server = EmbeddedServer(folder, settings=settings, binaries=binaries, kept=False)
        try:
            yield server.start()
        finally:
            server.stop()


def _temporary() -> Path:
    """Return the folder for temporary files. To find it a file is made there, which a signal could leave behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        return Path(tempfile.gettempdir())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _claimed_folder(parent: Path) -> Iterator[Path]:
    """Make a folder that sweep() can't mistake for a left-over one: it bears its name only once it is locked."""
    fresh = folder = parent / f"reproq-new-{secrets.token_hex(4)}"
    lock = None
    try:  # from before it exists: a signal may come at any moment
        fresh.mkdir(mode=0o700)
        fresh.chmod(0o711 if os.geteuid() == 0 else 0o700)
        lock = Folder(fresh).try_lock("throwaway.lock")
        folder = parent / fresh.name.replace("reproq-new-", THROWAWAY)
        fresh.rename(folder)
        yield folder
    finally:
        for path in (fresh, folder):
            shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def sweep(parent: Path | None = None) -> None:
    """Remove throw-away folders whose starter and keeper were both killed."""
    for path in (parent or _temporary()).glob(THROWAWAY + "*"):
        folder = Folder(path)
        try:
            _sweep_one(folder)
        except OSError:
            continue  # another user's, or another sweeper was faster


def _sweep_one(folder: Folder) -> None:
    if folder.path.is_symlink() or folder.path.stat().st_uid != os.geteuid():
        return
    if (claimed := folder.try_lock("throwaway.lock")) is None:
        return
    try:
        if (idle := folder.try_lock("server.lock")) is None:
            _end_stray(folder)  # its keeper may be at it already: the folder goes now or at the next sweep
            return
        os.close(idle)
        shutil.rmtree(folder.path, ignore_errors=True)
    finally:
        os.close(claimed)


def _end_stray(folder: Folder) -> None:
    found = folder.postmaster_pid()
    if found and folder.is_home_of(found):
        os.kill(found, signal.SIGQUIT)
