"""What a dispatcher is told beside its database: flags and environment, no file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any

from reproq.config import values
from reproq.config.address import folder
from reproq.config.settings import SettingsError
from reproq.config.values import Parse, shown

Network = IPv4Network | IPv6Network
_SINK = re.compile(r"[a-z][a-z0-9_]{0,49}")
SECRET_VARIABLE = re.compile(r"REPROQ_SINK_SECRET_[A-Z0-9_]+")


@dataclass(frozen=True)
class DispatchSettings:
    sinks: tuple[str, ...] = ()  # none = every sink
    concurrency: int = 8
    lease_s: float = 60.0
    poll_interval_s: float = 1.0
    drain_timeout_s: float = 30.0
    allow_private: tuple[Network, ...] = ()
    ca_file: Path | None = None
    until_empty: bool = False


@dataclass(frozen=True)
class DispatchOption:
    field: str
    parse: Parse
    flag: str
    variable: str | None
    metavar: str
    help: str


def sink_name(word: str) -> str:
    if not _SINK.fullmatch(word) or word.endswith("_file"):
        raise ValueError(f"{shown(word)} isn't a sink's name: lower-case letters, digits and _, a letter first")
    return word


def _network(word: str) -> Network:
    try:
        return ip_network(word)
    except ValueError:
        raise ValueError(f"{shown(word)} isn't a network; write 10.0.0.0/8 or fd00::/8") from None


def _networks(value: object) -> object:
    words = values.words(lambda word: str(_network(word)))(value)
    assert isinstance(words, tuple)
    return tuple(_network(word) for word in words)


OPTIONS = (
    DispatchOption(
        "sinks", values.words(sink_name), "--sink", "REPROQ_DISPATCH_SINKS", "NAME",
        "Deliver to this sink (repeatable; none = every sink).",
    ),
    DispatchOption(
        "concurrency", values.number(1, 256), "--concurrency", "REPROQ_DISPATCH_CONCURRENCY", "N",
        "Requests at one time to each sink (default 8).",
    ),
    DispatchOption(
        "lease_s", values.duration(1, 600), "--lease", "REPROQ_DISPATCH_LEASE", "TIME",
        "How long claimed events wait for a dispatcher that died (default 60s; at least twice a sink's time-out).",
    ),
    DispatchOption(
        "poll_interval_s", values.duration(0.01, 86400), "--poll-interval", "REPROQ_DISPATCH_POLL_INTERVAL", "TIME",
        "How often an idle dispatcher looks for what nobody woke it for (default 1s).",
    ),
    DispatchOption(
        "drain_timeout_s", values.duration(0, 86400), "--drain-timeout", "REPROQ_DISPATCH_DRAIN_TIMEOUT", "TIME",
        "How long requests that are under way may go on after SIGTERM (default 30s).",
    ),
    DispatchOption(
        "allow_private", _networks, "--allow-private", "REPROQ_DISPATCH_ALLOW_PRIVATE", "CIDR",
        "Sinks that may use private addresses may use those of this network (repeatable; none = none).",
    ),
    DispatchOption(
        "ca_file", folder, "--ca-file", "REPROQ_DISPATCH_CA_FILE", "FILE",
        "Certificates of authorities to trust beside the system's.",
    ),
    DispatchOption(
        "until_empty", values.boolean, "--until-empty", None, "", "End with status 0 when nothing is left to deliver.",
    ),
)  # fmt: skip
NAMES = frozenset(option.variable for option in OPTIONS if option.variable)


def load_dispatch(overrides: Mapping[str, object], environ: Mapping[str, str]) -> DispatchSettings:
    """Flags over environment over default; SettingsError, in one line, when something is wrong."""
    found: dict[str, Any] = {}
    for option in OPTIONS:
        value, where = overrides.get(option.field), option.flag
        if value in (None, (), False):
            value, where = environ.get(option.variable or "", "").strip(), option.variable or ""
        if value:
            try:
                found[option.field] = option.parse(value)
            except ValueError as problem:
                raise SettingsError(f"{where}: {problem}") from None
    settings = DispatchSettings(**found)
    if settings.ca_file is not None and not settings.ca_file.is_file():
        raise SettingsError(f"no file {settings.ca_file}; --ca-file names a PEM file of certificates")
    return settings


def secret_variable(sink: str) -> str:
    return f"REPROQ_SINK_SECRET_{sink.upper()}"


def sink_secrets(sink: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A sink's secrets: one, or while it is changed two, with a space or line between. Files are read each time."""
    name = secret_variable(sink)
    if environ.get(name, "").strip():
        return tuple(environ[name].split())
    path = environ.get(f"{name}_FILE", "").strip()
    if not path:
        return ()
    try:
        return tuple(Path(path).read_text("utf-8").split())
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "not UTF-8 text"
        raise SettingsError(f"{name}_FILE: can't read {shown(path)}: {reason}") from None
