"""Addresses: of a database, of a folder, to listen on. No error repeats a database's: it may hold a password."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from urllib.parse import unquote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_USERINFO = re.compile(r"://([^/?#]*)@")
_EXAMPLE = 'write postgresql://user:password@host:5432/name or "host=… dbname=…"'


def checked(value: object) -> str:
    """The address as libpq takes it. postgresql+driver:// (SQLAlchemy) is understood too."""
    if not isinstance(value, str) or not value.strip() or not value.strip().isprintable():
        raise ValueError(f"no PostgreSQL address; {_EXAMPLE}")
    dsn = _without_driver(value.strip())
    options = _parsed(dsn)
    if not all(_is_port(port) for port in str(options.get("port") or "").split(",")):
        raise ValueError(f"the port isn't a number (encode / : @ in the password as %2F %3A %40); {_EXAMPLE}")
    return dsn


def _without_driver(dsn: str) -> str:
    scheme = _SCHEME.match(dsn)
    if scheme is None:
        return dsn
    name = scheme.group(1).lower()
    if name.split("+")[0] not in ("postgresql", "postgres"):
        raise ValueError(f"{name}:// isn't a PostgreSQL address; {_EXAMPLE}")
    return "postgresql://" + dsn[scheme.end() :]


def _parsed(dsn: str) -> dict[str, object]:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return dict(conninfo_to_dict(dsn))
    except (psycopg.Error, ValueError):
        # libpq's own message quotes pieces of the address, and a badly encoded password is such a piece.
        raise ValueError(
            f"malformed PostgreSQL address; {_EXAMPLE}, special characters in the password percent-encoded"
        ) from None


def _is_port(port: str) -> bool:
    return port == "" or (port.isascii() and port.isdigit() and 0 < int(port[:9]) < 65536)


def passwords(dsn: str) -> set[str]:
    """Every spelling of the password in an address: as written, and decoded."""
    found = {match.group(1).partition(":")[2] for match in _USERINFO.finditer(dsn)}
    with contextlib.suppress(ValueError):
        found.add(str(_parsed(dsn).get("password") or ""))
    return {spelling for secret in found for spelling in (secret, unquote(secret)) if spelling}


def folder(value: object) -> Path:
    word = str(value) if isinstance(value, (str, Path)) else ""
    if not word.strip() or "\0" in word:
        raise ValueError("not the path of a folder")
    return Path(word).expanduser().absolute()


def listening(value: object) -> tuple[str, int]:
    """HOST:PORT, [IPv6]:PORT, or a port of this machine alone; port 0 is whichever is free."""
    word = str(value).strip()
    host, _, port = word.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535 or not re.fullmatch(r"[A-Za-z0-9_.:%-]+", host):
        raise ValueError(f"{word[:60]!r} isn't an address to listen on; write 127.0.0.1:9187 or [::1]:9187")
    return host, int(port)
