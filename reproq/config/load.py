"""load(): flags over environment over file over default, and one clear line when something is wrong."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from reproq.config import commands, limits, modules
from reproq.config.options import BY_FIELD, BY_KEY, KNOWN, OPTIONS, PROVIDERS, Option, is_known
from reproq.config.providers import CHOICES, ProviderSettings, used
from reproq.config.settings import Settings, SettingsError, check, derived
from reproq.config.values import shown, suggestion

DEFAULT_FILE = "reproq.toml"
_TABLES = ("command", "limits", "serve")
Found = tuple[object, str, int]  # value, where it stood, layer (0 flag, 1 environment, 2 file)


def load(
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    file: str | Path | None = None,
    *,
    worker: bool = True,
    need_database: bool = True,
) -> Settings:
    """Read everything once. `overrides` are flags by field name; None and empty ones count as not given.
    `worker=False` leaves out what concerns a worker only (does the app exist, is there a program for each command, the
    providers: other users of an environment may not be allowed to read the keys)."""
    environ = os.environ if environ is None else environ
    _refuse_unknown(environ)
    path = _file(file, environ)
    table = _read(path)
    found = _collect(overrides or {}, environ, table, path)
    _choose_database(found, need_database)
    given = {name: parsed(BY_FIELD[name], found[name]) for name in found}
    source = found["database_url"][1] if "database_url" in found else None
    pools = commands.read(table.get("command", []), path)
    kept = limits.read(table.get("limits", []), path)
    tables = {"database_source": source, "config": path, "commands": pools, "limits": kept}
    fields = derived(given) | given | tables
    fields["providers"] = _providers(environ, table, path) if worker else ProviderSettings()
    settings = Settings(**cast(dict[str, Any], fields))
    check(settings)
    if worker:
        modules.require(settings.app)
        commands.require(pools, path)
        limits.require(kept, pools, bool(settings.app), path)
    return settings


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    for name in environ:
        if name.startswith("REPROQ_") and not is_known(name):
            raise SettingsError(f"unknown environment variable {name}{_nearest(name)}")


def _nearest(variable: str) -> str:
    rest = variable.removeprefix("REPROQ_")  # some fixed names have no REPROQ_: POLL_INTERVAL, WORKER_TYPE_PREFIXES
    other = next((name for name in (rest, f"WORKER_{rest}") if name in KNOWN), None)
    return f"; did you mean {other}?" if other else suggestion(variable, KNOWN)


def _file(file: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    named = str(file) if file else environ.get("REPROQ_CONFIG", "").strip()
    if named:
        return Path(named).expanduser()
    try:
        return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).exists() else None
    except OSError:
        return None


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        with path.open("rb") as stream:
            table = tomllib.load(stream)
    except FileNotFoundError:
        raise SettingsError(f"no file {path}; name an existing one with --config or REPROQ_CONFIG") from None
    except (OSError, ValueError, RecursionError) as problem:
        raise SettingsError(f"can't read {path}: {_reason(problem)}") from None
    return {_key(name, path): value for name, value in table.items()}


def _reason(problem: Exception) -> str:
    if isinstance(problem, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(problem, RecursionError):
        return "nested too deeply"
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem).splitlines()[0]


def _key(name: str, path: Path) -> str:
    key = name.replace("-", "_")
    if key not in BY_KEY and key not in _TABLES:
        raise SettingsError(f"unknown key {shown(name)} in {path}{suggestion(key, [*BY_KEY, *_TABLES])}")
    return key


def _collect(
    overrides: Mapping[str, object], environ: Mapping[str, str], table: Mapping[str, object], path: Path | None
) -> dict[str, Found]:
    for name in overrides:
        if name not in BY_FIELD:
            raise SettingsError(f"unknown setting {name}{suggestion(name, BY_FIELD)}")
    found = {}
    for option in OPTIONS:
        first = first_given(option, overrides, environ, table, path)
        if first is not None:
            found[option.field] = first
    return found


def table_of(
    name: str, file: str | Path | None, environ: Mapping[str, str]
) -> tuple[Path | None, Mapping[str, object]]:
    """A table of the file, for a command that has settings of its own."""
    path = _file(file, environ)
    table = _read(path).get(name, {})
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: write these settings as a table that starts with [{name}]")
    return path, {key.replace("-", "_"): value for key, value in table.items()}


def first_given(
    option: Option,
    overrides: Mapping[str, object],
    environ: Mapping[str, str],
    table: Mapping[str, object],
    path: Path | None,
) -> Found | None:
    return _flag(option, overrides) or _variable(option, environ) or _in_file(option, table, path)


def _flag(option: Option, overrides: Mapping[str, object]) -> Found | None:
    value = overrides.get(option.field)
    # A switch that wasn't given is False in click: it must not hide the environment's.
    absent = value is None or value is False or value == ()
    return None if absent else (value, option.flag, 0)


def _variable(option: Option, environ: Mapping[str, str]) -> Found | None:
    for name in option.variables:
        if environ.get(name, "").strip():
            if option.from_file(name) and environ.get(f"{name}_FILE", "").strip():
                raise SettingsError(f"{name} and {name}_FILE are both given; keep one")
            return environ[name], name, 1
        if option.from_file(name) and environ.get(f"{name}_FILE", "").strip():
            return _secret_file(f"{name}_FILE", environ), f"{name}_FILE", 1
    return None


def _secret_file(name: str, environ: Mapping[str, str]) -> str:
    try:
        return Path(environ[name].strip()).read_text("utf-8").strip()
    except (OSError, ValueError) as problem:
        raise SettingsError(f"{name}: can't read {shown(environ[name])}: {_reason(problem)}") from None


def _in_file(option: Option, table: Mapping[str, object], path: Path | None) -> Found | None:
    return (table[option.key], f"{path}: {option.key}", 2) if option.key in table else None


def parsed(option: Option, found: Found) -> object:
    value, where, _layer = found
    try:
        return option.parse(value)
    except ValueError as problem:
        raise SettingsError(f"{where}: {problem}") from None


def _providers(environ: Mapping[str, str], table: Mapping[str, object], path: Path | None) -> ProviderSettings:
    def read(names: Iterable[str]) -> dict[str, Any]:
        options = [option for option in PROVIDERS if option.field in names]
        found = {option: _variable(option, environ) or _in_file(option, table, path) for option in options}
        return {option.field: parsed(option, first) for option, first in found.items() if first is not None}

    chosen = read(CHOICES)
    return ProviderSettings(**chosen, **read({name for choice in chosen.items() for name in used(*choice)}))


def _choose_database(found: dict[str, Found], needed: bool) -> None:
    """One database: the address or the embedded server, whichever was named on the stronger layer."""
    if "embedded" in found and not parsed(BY_FIELD["embedded"], found["embedded"]):
        del found["embedded"]
    if "embedded_dir" in found and "embedded" not in found and found["embedded_dir"][2] == 0:
        found["embedded"] = (True, "--embedded-dir", 0)
    address, embedded = found.get("database_url"), found.get("embedded")
    if address and embedded:
        # DATABASE_URL is often there for the app; only names meant for Reproq contradict each other.
        if address[2] == embedded[2] and address[1] != "DATABASE_URL":
            raise SettingsError(f"{address[1]} and {embedded[1]} contradict each other; keep one of them")
        del found["database_url" if embedded[2] <= address[2] else "embedded"]
    if needed and not address and not embedded:
        raise SettingsError(
            "no database: give --database-url postgresql://…, set REPROQ_DATABASE_URL, or start one with --embedded"
        )
