"""Addresses of providers. An error here never repeats the address: it may hold a password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

_TLS_OF = {"smtp": ("starttls", "none", "implicit"), "smtps": ("implicit",)}
_PORT_OF = {"starttls": 587, "implicit": 465, "none": 25}
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_SMTP_EXAMPLE = (
    "write smtp://user:password@host:587?tls=starttls, special characters in user and password percent-encoded"
)


@dataclass(frozen=True)
class SmtpServer:
    host: str
    port: int
    tls: str  # starttls, implicit, or none: said explicitly
    user: str = ""
    password: str = field(default="", repr=False)


def smtp(address: str) -> SmtpServer:
    parts = _split(address)
    allowed = _TLS_OF.get(parts.scheme.lower(), ())
    query = parse_qsl(parts.query, keep_blank_values=True)
    tls = dict(query).get("tls", "implicit" if parts.port == 465 else allowed[0] if allowed else "")
    right = tls in allowed and [name for name, _ in query] in ([], ["tls"]) and parts.path in ("", "/")
    if not right or not parts.hostname or parts.fragment:
        _malformed()
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(user) != bool(password) or not (user + password + "x").isprintable():
        _malformed()
    return SmtpServer(parts.hostname, parts.port or _PORT_OF[tls], tls, user, password)


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        sound = parts.port != 0 and _HOST.fullmatch(parts.hostname or "x") and address.isprintable()
    except ValueError:  # its own message quotes a piece of the address
        sound = False
    if not sound or " " in address or _BROKEN_ESCAPE.search(address):
        _malformed()
    return parts


def _malformed() -> NoReturn:
    raise ValueError(f"malformed SMTP address; {_SMTP_EXAMPLE}") from None


def checked_smtp(value: object) -> str:
    if not isinstance(value, str):
        _malformed()
    smtp(value.strip())
    return value.strip()


def http(value: object) -> str:
    """The base of an API, without a slash at its end."""
    address = value.strip() if isinstance(value, str) else ""
    try:
        parts = urlsplit(address)
        sound = parts.scheme in ("http", "https") and parts.port != 0 and _HOST.fullmatch(parts.hostname or "")
    except ValueError:
        sound = False
    if not sound or not address.isascii() or not address.isprintable() or set(address) & set(" @?#"):
        raise ValueError("not the address of an API; write https://host, without user, password, ? and #")
    return address.rstrip("/")
