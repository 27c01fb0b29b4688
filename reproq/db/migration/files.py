"""The migrations folder as values: what there is to apply, in which order, under which names.

Role names stand in the files as they are; a role prefix replaces them by whole word when the text is read. Hashes are
taken before that, so an installation with a prefix is as current as one without.
"""

import dataclasses
import functools
import hashlib
import re
import tomllib
from pathlib import Path

from reproq.db.errors import MigrationRefused

OWNER = "reproq_owner"
ROLES = (OWNER, "worker_service_user", "reproq_app", "reproq_reader", "reproq_dispatcher", "reproq_process_author")
SCHEMAS = ("queues", "internal", "comms")
GRANTS = "grants.sql"
_ROLE = re.compile(r"\b(" + "|".join(ROLES) + r")\b")
_AFTER = re.compile(r"^-- after: *([\w.]+(?: *, *[\w.]+)*) *$", re.MULTILINE)
_CREATED = re.compile(
    r"^create (?:or replace )?function (\w+\.\w+)(\s*\(.*?\bas \$\$.*?\$\$[^;$]*;)",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,29}|")


@dataclasses.dataclass(frozen=True)
class SqlFile:
    """One file: its name in the ledger, its text with the role prefix applied, the hash of its text without."""

    name: str
    text: str
    sha256: str
    after: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Migrations:
    """Everything that a database of this code's version has been through."""

    schema_version: int
    compatible_from: int
    declared_sha256: str
    role_prefix: str
    roles: SqlFile
    numbered: tuple[SqlFile, ...]
    functions: tuple[SqlFile, ...]
    grants: SqlFile

    @property
    def owner(self) -> str:
        return self.role_prefix + OWNER

    @property
    def role_names(self) -> tuple[str, ...]:
        return tuple(self.role_prefix + name for name in ROLES)

    @functools.cached_property
    def text_sha256(self) -> str:
        """Hash what may change without a new number: the function files and the grants."""
        digest = hashlib.sha256()
        for file in sorted((*self.functions, self.grants), key=lambda file: file.name):
            digest.update(f"{file.name} {file.sha256}\n".encode())
        return digest.hexdigest()


def default_folder() -> Path:
    """Return the folder inside the installed package, or the one beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    inside, beside = package / "migrations", package.parent / "migrations"
    return inside if inside.is_dir() else beside


def load(folder: Path | None = None, role_prefix: str = "") -> Migrations:
    """Read a migrations folder."""
    folder = folder or default_folder()
    check_prefix(role_prefix)
    try:
        version = tomllib.loads((folder / "version.toml").read_text("utf-8"))
        read = functools.partial(_read, folder, role_prefix)
        return Migrations(
            schema_version=version["schema_version"],
            compatible_from=version["compatible_from"],
            declared_sha256=version.get("functions_sha256", ""),
            role_prefix=role_prefix,
            roles=read("roles.sql"),
            numbered=tuple(read(path.name) for path in sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))),
            functions=_in_order([read(str(p.relative_to(folder))) for p in sorted(folder.glob("functions/*/*.sql"))]),
            grants=read(GRANTS),
        )
    except (OSError, KeyError, tomllib.TOMLDecodeError) as exc:
        raise MigrationRefused(f"the migrations in {folder} can't be read ({exc}): install reproq again") from exc


def check_prefix(role_prefix: str) -> None:
    """Refuse a prefix that couldn't start a plain role name."""
    if not _PREFIX.fullmatch(role_prefix):
        raise MigrationRefused(
            f"role prefix {role_prefix!r} is refused: use up to 30 of a-z, 0-9 and _, not starting with a digit"
        )


def with_prefix(text: str, role_prefix: str) -> str:
    """Put the installation's prefix before the names of our roles."""
    return _ROLE.sub(role_prefix + r"\1", text)


def functions_in(text: str) -> list[tuple[str, str]]:
    """Name and statement of each function that a migration creates, so that it can be made again."""
    return [(name, f"create or replace function {name}{rest}") for name, rest in _CREATED.findall(text)]


def _read(folder: Path, role_prefix: str, relative: str) -> SqlFile:
    path = folder / relative
    text = path.read_text("utf-8") if path.exists() or relative != GRANTS else ""
    name = relative
    if relative.startswith("functions/"):
        name = ".".join(Path(relative).with_suffix("").parts[1:])
    after = tuple(word for line in _AFTER.findall(text) for word in re.split(r" *, *", line))
    return SqlFile(name, with_prefix(text, role_prefix), hashlib.sha256(text.encode()).hexdigest(), after)


def _in_order(files: list[SqlFile]) -> tuple[SqlFile, ...]:
    """Order by name, but every file after those it names."""
    waiting = {file.name: file for file in files}
    ordered: list[SqlFile] = []
    while waiting:
        ready = next((file for file in waiting.values() if not waiting.keys() & set(file.after)), None)
        if ready is None:
            raise MigrationRefused(f"function files wait for each other by `-- after:`: {', '.join(waiting)}")
        ordered.append(waiting.pop(ready.name))
    names = {file.name for file in files}
    for file in files:
        if unknown := set(file.after) - names:
            raise MigrationRefused(f"function file {file.name} is to come after {', '.join(unknown)}, which is missing")
    return tuple(ordered)
