"""What `reproq serve` is told: flags, environment, the [serve] table of the file, defaults."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reproq.config.load import first_given, parsed, table_of
from reproq.config.options import GATEWAY
from reproq.config.settings import SettingsError
from reproq.config.values import shown, suggestion


@dataclass(frozen=True)
class GatewaySettings:
    listen: tuple[str, int] = ("127.0.0.1", 8080)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure_plain_http: bool = False
    ticket_keys: tuple[str, ...] = field(default=(), repr=False)
    cors_origins: tuple[str, ...] = ()
    max_waiters: int = 5000
    max_body: int = 2 * 1024 * 1024
    keep_alive_s: float = 15.0


def load_gateway(
    overrides: Mapping[str, object], environ: Mapping[str, str] | None = None, file: str | Path | None = None
) -> GatewaySettings:
    environ = os.environ if environ is None else environ
    path, table = table_of("serve", file, environ)
    known = {option.key: option for option in GATEWAY if option.key}
    for name in table:
        if name not in known:
            raise SettingsError(f"unknown key {shown(name)} in [serve] of {path}{suggestion(name, known)}")
    found = {option: first_given(option, overrides, environ, table, path) for option in GATEWAY}
    fields: dict[str, Any] = {option.field: parsed(option, one) for option, one in found.items() if one is not None}
    settings = GatewaySettings(**fields)
    _check(settings)
    return settings


def _check(settings: GatewaySettings) -> None:
    if settings.tls_key is not None and settings.tls_cert is None:
        raise SettingsError("--tls-key is given without --tls-cert; give both, or one file with both as --tls-cert")
    host, port = settings.listen
    if settings.tls_cert is None and not settings.insecure_plain_http and not is_loopback(host):
        bracketed = f"[{host}]" if ":" in host else host
        raise SettingsError(
            f"{bracketed}:{port} can be reached from other hosts, and without TLS everybody between reads tokens and "
            "results: give --tls-cert and --tls-key, or say --insecure-plain-http if something in front does TLS"
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
