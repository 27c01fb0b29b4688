"""As whom the server runs.

`postgres` refuses to run as root, and a root user's files often lie under a 0700 home that nobody else may enter. So
as root three ways are tried, the least powerful first; each is proved by running a program the way the server will run.

1. an unprivileged uid, where it can reach the binaries and the folder;
2. root seen as nobody from inside a user namespace (no capability is left, but root's files stay its own);
3. an unprivileged uid that may pass permission bits (containers forbid user namespaces but mostly leave this right).

A normal user runs it as itself; one whose uid has no name (`docker run --user`) by the second way.
"""

import dataclasses
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reproq.db.embedded.binaries import Binaries
from reproq.db.errors import EmbeddedError


@dataclasses.dataclass(frozen=True)
class Identity:
    """A prefix for the command line, the uid to start it with (None: our own), and who its files belong to."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    owner: int | None = None

    def popen_user(self) -> dict[str, Any]:
        """Return the arguments that make subprocess start a program under this uid and nothing else of ours."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.uid, "extra_groups": []}


def choose(binaries: Binaries, folder: Path) -> Identity:
    """Return the first way in which the server may run here."""
    uid = os.geteuid()
    if uid and _has_name(uid):
        return Identity()
    for identity in _candidates(_unprivileged_uid(folder)) if uid == 0 else _in_a_namespace(None):
        if _works(identity, binaries, folder):
            return identity
    if uid:
        raise EmbeddedError(f"PostgreSQL's initdb wants a name for uid {uid}: run as a user that is in /etc/passwd")
    raise EmbeddedError(
        f"PostgreSQL refuses to run as root, and no other way reaches both {binaries.folder} and {folder}:"
        " choose a folder outside of private homes with --embedded-dir, or run as a normal user"
    )


def environment() -> dict[str, str]:
    """Return what the server inherits: neither our settings nor libpq's, which would change it or leak into it."""
    kept = ("PATH", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}


def _unprivileged_uid(folder: Path) -> int:
    """Prefer the folder's own user (it was made without root), else nobody."""
    uid = folder.stat().st_uid
    return uid if uid and _has_name(uid) else _nobody()


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _nobody() -> int:
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        return 65534


def _candidates(uid: int) -> Iterator[Identity]:
    yield Identity(uid=uid, owner=uid)
    yield from _in_a_namespace(0)
    if setpriv := shutil.which("setpriv"):
        rights = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
        yield Identity((setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *rights), owner=uid)


def _in_a_namespace(owner: int | None) -> Iterator[Identity]:
    if unshare := shutil.which("unshare"):  # nobody's uid, since initdb refuses one that has no name
        yield Identity((unshare, "--user", f"--map-user={_nobody()}", f"--map-group={_nobody()}"), owner=owner)


def _works(identity: Identity, binaries: Binaries, folder: Path) -> bool:
    script = 'cd "$1" && exec "$2" --version'
    command = [*identity.prefix, "/bin/sh", "-c", script, "sh", str(folder), binaries.program("initdb")]
    user = identity.popen_user()
    try:
        tried = subprocess.run(command, check=False, capture_output=True, cwd="/", env=environment(), **user)
    except OSError:
        return False
    return tried.returncode == 0
