"""[[command]] tables of the file: any executable as the child of a type prefix."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from reproq.config.settings import CommandPool, SettingsError
from reproq.config.values import Parse, boolean, command, number, shown, suggestion, text, type_prefix

_KEYS: dict[str, Parse] = {
    "prefix": lambda value: type_prefix(text(value)),
    "command": command,
    "processes": number(1, 4096),
    "contain": boolean,
    "cwd": lambda value: Path(text(value)).expanduser(),
}


def read(tables: object, path: Path | None) -> tuple[CommandPool, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path}: write each command as a table that starts with [[command]]")
    pools = tuple(_pool(table, f"{path}: command {place}", path) for place, table in enumerate(tables, 1))
    prefixes = [pool.prefix for pool in pools]
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise SettingsError(f"{path}: two commands have the prefix {shown(prefix)}; keep one")
    return pools


def _pool(table: dict[str, object], where: str, path: Path | None) -> CommandPool:
    for name in table:
        if name not in _KEYS:
            raise SettingsError(f"{where}: unknown key {shown(name)}{suggestion(name, _KEYS)}")
    for name in ("prefix", "command"):
        if not table.get(name):
            raise SettingsError(f"{where}: {name} is missing; it needs a prefix and a command")
    try:
        fields: dict[str, Any] = {name: _KEYS[name](value) for name, value in table.items()}
    except ValueError as problem:
        raise SettingsError(f"{where}: {problem}") from None
    if "cwd" in fields:  # relative to the file that says so, not to where the worker happens to start
        fields["cwd"] = (path or Path()).absolute().parent / fields["cwd"]
    return CommandPool(**fields)


def require(pools: tuple[CommandPool, ...], path: Path | None) -> None:
    """Is there a program for each? Asked once at start, not at the first task."""
    for pool in pools:
        program, folder = pool.command[0], pool.cwd or Path.cwd()
        if not folder.is_dir():
            raise SettingsError(f"{path}: command {shown(pool.prefix)}: no folder {folder}")
        if not shutil.which(str(folder / program) if "/" in program else program):
            raise SettingsError(
                f"{path}: command {shown(pool.prefix)}: no executable {shown(program)} (looked from {folder})"
            )
