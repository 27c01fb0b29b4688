"""An environment for each peer, in bench/.envs: made once, kept till `make clean`. What can't be had is left out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from reproq.bench.figures import LeftOut

_LIMIT_S = 300
_NODE_MAJOR = 22


class Environments:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._failed: dict[str, str] = {}

    def python(self, name: str, requirements: tuple[str, ...]) -> Path:
        """The interpreter of an environment with these installed."""
        place = self.folder / name
        self._once(name, place, requirements, lambda: _make_venv(place, requirements))
        return place / "bin" / "python"

    def node(self, name: str, packages: tuple[str, ...]) -> tuple[Path, Path]:
        """A node that is new enough, and the folder whose node_modules holds the packages."""
        place = self.folder / name
        self._once(name, place, packages, lambda: _npm(place, packages))
        own = place / "node_modules" / ".bin" / "node"
        return (own if own.exists() else Path(_tool("node"))), place

    def _once(self, name: str, place: Path, wanted: tuple[str, ...], make: object) -> None:
        stamp, text = place / ".installed", "\n".join(wanted)
        if stamp.exists() and stamp.read_text("utf-8") == text:
            return
        if name not in self._failed:
            try:
                assert callable(make)
                make()
                stamp.write_text(text, "utf-8")
                return
            except (OSError, subprocess.SubprocessError, LeftOut) as problem:
                self._failed[name] = _reason(problem)
                shutil.rmtree(place, ignore_errors=True)
        raise LeftOut(f"{', '.join(wanted)} can't be installed: {self._failed[name]}")


def _make_venv(place: Path, requirements: tuple[str, ...]) -> None:
    shutil.rmtree(place, ignore_errors=True)
    python = str(place / "bin" / "python")
    _run([sys.executable, "-m", "venv", "--without-pip", str(place)])
    _run([*_pip(python), "install", "--quiet", "--disable-pip-version-check", *requirements])


def _pip(python: str) -> list[str]:
    """Our own pip can install into another environment; one that lacks it makes a second try with ensurepip."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], check=False, capture_output=True).returncode == 0:
        return [sys.executable, "-m", "pip", "--python", python]
    _run([python, "-m", "ensurepip"])
    return [python, "-m", "pip"]


def _npm(place: Path, packages: tuple[str, ...]) -> None:
    npm = _tool("npm")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    common = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(place)]
    if _node_major() < _NODE_MAJOR:
        _run([*common, f"node@{_NODE_MAJOR}"])
    _run([*common, *packages])


def _node_major() -> int:
    said = subprocess.run([_tool("node"), "--version"], check=True, capture_output=True, text=True).stdout
    return int(said.strip().lstrip("v").split(".")[0])


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise LeftOut(f"there is no {name} on this machine")
    return found


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LIMIT_S)


def _reason(problem: Exception) -> str:
    said = str(getattr(problem, "stderr", "") or problem).strip().splitlines()
    telling = [line for line in said if "ERROR" in line or "error" in line.lower()] or said
    return (telling or ["it said nothing"])[0][:300]
