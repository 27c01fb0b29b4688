"""What a child may see of the worker's environment: everything but the worker's own secrets, or an allow-list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from reproq.config.address import passwords
from reproq.config.options import is_secret
from reproq.config.settings import Settings

# The systemd names would let a child speak for the worker or find its credentials.
_OWN = frozenset(
    {
        *("PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE"),
        *("CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"),
        *("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "REPROQ_WITHHELD"),
    }
)
_PASSWORD = re.compile(r"\b(?:\w*password|passwd)\s*=\s*('[^']*'|[^\s&;'\"]+)", re.IGNORECASE)
_STRICT = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV"})
_STRICT_PREFIXES = ("LC_", "PYTHON", "LD_LIBRARY_PATH")


def withheld(environ: Mapping[str, str], settings: Settings) -> tuple[str, ...]:
    """Names that children don't get. `--child-env NAME` hands one over all the same."""
    secrets = _secrets(settings)
    allowed = set(settings.child_env)
    return tuple(
        sorted(name for name, value in environ.items() if name not in allowed and _kept(name, value, settings, secrets))
    )


def child_environ(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The environment of app children. REPROQ_WITHHELD names what is missing, for the child's boot error."""
    kept = withheld(environ, settings)
    passed = {name: value for name, value in environ.items() if name not in set(kept)}
    return passed | {"REPROQ_WITHHELD": ",".join(kept)}


def _kept(name: str, value: str, settings: Settings, secrets: frozenset[str]) -> bool:
    if settings.strict_env and not _is_plain(name):
        return True
    own = name in _OWN or is_secret(name) or name == settings.database_source
    return own or _tells(value, settings, secrets)


def _is_plain(name: str) -> bool:
    return name in _STRICT or name.startswith(_STRICT_PREFIXES)


def _tells(value: str, settings: Settings, secrets: frozenset[str]) -> bool:
    """The worker's address, password or key under another name: DATABASE_URL beside --database-url "$DATABASE_URL"."""
    if value in (settings.database_url, settings.migrate_url) or value in secrets:
        return True
    if "://" in value and any(f":{secret}@" in value for secret in secrets):
        return True
    return "=" in value and (_assigns(value, secrets) or bool(passwords(value) & secrets))


def _assigns(value: str, secrets: frozenset[str]) -> bool:
    """A keyword of a DSN, or a parameter of an address."""
    found = {word.strip("'") for word in _PASSWORD.findall(value)}
    return bool(found & secrets or {unquote(word) for word in found} & secrets)


def _secrets(settings: Settings) -> frozenset[str]:
    addresses = (settings.database_url, settings.migrate_url)
    found = {secret for dsn in addresses if dsn for secret in passwords(dsn)} | settings.providers.secrets()
    return frozenset(secret for secret in found if len(secret) >= 4)


def secrets(environ: Mapping[str, str], settings: Settings) -> set[str]:
    """Every secret text a log line must never hold."""
    names = [name for name in environ if name == "PGPASSWORD" or (is_secret(name) and not name.endswith("_FILE"))]
    found = {word for name in names if (value := environ[name].strip()) for word in (value, *value.split())}
    addresses = [settings.database_url, settings.migrate_url, *(value for value in found if "://" in value)]
    return found | {secret for dsn in addresses if dsn for secret in passwords(dsn)} | settings.providers.secrets()
