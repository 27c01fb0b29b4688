"""[[limits]] tables of the file: what the processes of a type prefix may use, and as whom they run."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path
from typing import Any

from reproq.config.settings import CommandPool, Limits, SettingsError
from reproq.config.values import Parse, boolean, duration, number, shown, size, suggestion, text, type_prefix

_UIDS = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?")
_MAX_UID = 2**32 - 2


def _uids(value: object) -> tuple[int, ...]:
    """A name, a number, or a range of numbers of which each process gets its own."""
    word = str(value).strip()
    match = _UIDS.fullmatch(word)
    if match is None or isinstance(value, bool):
        try:
            return (pwd.getpwnam(word).pw_uid,)
        except (KeyError, ValueError):
            raise ValueError(f"{shown(value)} is no user; write a name, a number, or a range as 20000-20015") from None
    low, high = int(match[1]), int(match[2] or match[1])
    if not 0 < low <= high <= _MAX_UID or high - low >= 4096:
        raise ValueError(f"{shown(value)} is no range of user numbers; 0 is root")
    return tuple(range(low, high + 1))


def _network(value: object) -> bool:
    if str(value) not in ("none", "shared"):
        raise ValueError(f"network {shown(value)} is neither none nor shared")
    return str(value) == "shared"


_KEYS: dict[str, Parse] = {
    "prefix": lambda value: type_prefix(text(value)),
    "children": number(1, 4096),
    "memory": size(2**20, 2**50),
    "cpu": duration(1, 86400 * 366),
    "files": number(128, 2**20),
    "processes": number(1, 2**22),
    "file_size": size(0, 2**60),
    "uid": _uids,
    "network": _network,
    "new_privileges": boolean,
}


def read(tables: object, path: Path | None) -> tuple[Limits, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path}: write each entry as a table that starts with [[limits]]")
    found = tuple(_entry(table, f"{path}: limits {place}") for place, table in enumerate(tables, 1))
    prefixes = [entry.prefix for entry in found]
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise SettingsError(f"{path}: two limits have the prefix {shown(prefix)}; keep one")
    return found


def _entry(table: dict[str, object], where: str) -> Limits:
    for name in table:
        if name not in _KEYS:
            raise SettingsError(f"{where}: unknown key {shown(name)}{suggestion(name, _KEYS)}")
    if not table.get("prefix"):
        raise SettingsError(f"{where}: prefix is missing; it says which types are meant")
    try:
        fields: dict[str, Any] = {name: _KEYS[name](value) for name, value in table.items()}
    except ValueError as problem:
        raise SettingsError(f"{where}: {problem}") from None
    return Limits(**fields)


def require(entries: tuple[Limits, ...], pools: tuple[CommandPool, ...], app: bool, path: Path | None) -> None:
    """What can't be kept is refused at start, and not by the first task."""
    commands = {pool.prefix for pool in pools}
    for entry in entries:
        where = f"{path}: limits {shown(entry.prefix)}"
        if entry.prefix not in commands and not app:
            raise SettingsError(f"{where}: nothing serves it; name an --app, or a [[command]] of the same prefix")
        if entry.prefix in commands and entry.children is not None:
            raise SettingsError(f"{where}: its [[command]] says how many processes it has; leave children away")
        if os.geteuid() != 0 and (entry.uid or not entry.network):
            raise SettingsError(f"{where}: uid and network need a worker that runs as root")
        if not entry.network and not entry.uid:
            raise SettingsError(f'{where}: network = "none" needs uid too: a process of root\'s can leave it again')
