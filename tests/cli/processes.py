"""Which processes are there, by what they were started with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def running() -> Iterator[tuple[int, str, str]]:
    """Give pid, command line and environment of every live process; zombies are dead."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has just ended
            continue
        if state not in "ZX":
            yield int(folder.name), command, _environment(folder)


def _environment(folder: Path) -> str:
    try:
        return (folder / "environ").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # another user's, or it protects itself
        return ""
