"""What a session ran on: without it a figure means nothing."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from reproq import __version__
from reproq.bench.server import SETTINGS, Server, file_system
from reproq.bench.statements import statement


def gather(server: Server, scale: float) -> dict[str, Any]:
    with server.connect() as connection:
        settings = {str(name): str(value) for name, value in connection.execute(statement("settings")).fetchall()}
    folder = server.folder or Path(tempfile.gettempdir())
    return {
        "at": time.time(),
        "reproq": __version__,
        "commit": _commit(),
        "machine": _machine(),
        "disk": f"{file_system(folder)}, fdatasync of 8 KiB {_fdatasync_ms(folder):.2f} ms" if server.embedded else "",
        "server": f"PostgreSQL {settings.pop('server_version')}, {'own' if server.embedded else 'given'}",
        "settings": settings,
        "given settings": SETTINGS if server.embedded else {},
        "python": platform.python_version(),
        "psycopg": metadata.version("psycopg"),
        "scale": scale,
    }


def is_durable(facts: dict[str, Any]) -> bool:
    return all(facts["settings"].get(name) == "on" for name in ("fsync", "synchronous_commit"))


def _machine() -> str:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_cpu()}, {cores} cores, {memory:.0f} GB, {_system()}, Linux {platform.release()}"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _commit() -> str:
    """Of the checkout, with what isn't committed told apart; nothing for an installed package."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return ""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _fdatasync_ms(folder: Path, times: int = 50) -> float:
    taken = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(times):
            file.write(b"x" * 8192)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return sorted(taken)[times // 2] * 1000
