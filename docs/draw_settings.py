"""Draws the tables of docs/configuration.md and docs/providers.md from reproq/config: python docs/draw_settings.py"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# The checkout's own, wherever we are started.
from reproq.config import GatewaySettings, ProviderSettings, Settings, plain  # noqa: E402
from reproq.config.options import GATEWAY, OPTIONS, PROVIDERS, Option  # noqa: E402

PAGE = ROOT / "docs/configuration.md"
PROVIDERS_PAGE = ROOT / "docs/providers.md"
GATEWAY_PAGE = ROOT / "docs/http.md"
BEGIN = "<!-- settings: drawn by draw_settings.py -->\n"
END = "<!-- end -->\n"

# Defaults that depend on the host or on another setting, or that a number wouldn't explain.
_DEFAULTS = {
    "listen": "127.0.0.1:8080",
    "metrics_address": "nowhere",
    "embedded_dir": "`~/.local/share/reproq/embedded`",
    "queues": "every queue",
    "prefixes": "every type",
    "app": "none: built-in types only",
    "processes": "cores",
    "worker_id": "host name",
    "heartbeat_s": "10s, at most lease / 3",
    "worker_timeout_s": "3 leases",
}
_MEANINGS = {
    "database_url": "PostgreSQL's address. The own variable wins over `DATABASE_URL`",
    "embedded": "run an own PostgreSQL in a folder",
    "embedded_dir": "its folder; the data survives restarts, and a server that was killed is started again. "
    "As a flag it means `--embedded` too",
    "queues": "serve these queues, by turns",
    "prefixes": "serve types that start with one of these. `_` and `%` are plain characters",
    "app": "modules with `@task` functions, as you would import them",
    "processes": "child processes for them, one task at a time each",
    "recycle": "replace a child after so many tasks; 1 = a fresh process for each, 0 = never",
    "max_memory": "replace a child that has grown beyond this, between two tasks; 0 = never",
    "lease_s": "how long a claim holds without a heartbeat. A dead worker's tasks come back after it",
    "heartbeat_s": "how often claims are renewed. Three must fit into a lease",
    "poll_interval_s": "how often an idle worker looks for work that nobody woke it for",
    "drain_timeout_s": "how long running tasks may go on after `SIGTERM`",
    "kill_grace_s": "between `SIGTERM` and `SIGKILL` for a task that must stop",
    "system_processes": "child processes for `db_function`; 0 = none: keep such tasks out of its queues",
    "worker_id": "the name part of the worker's id. Pid and a random part are always added",
    "worker_timeout_s": "when a silent worker counts as dead; not below the lease. No task depends on it",
    "until_empty": "end with status 0 when nothing is leased, waits for a retry, or is due",
    "no_migrate": "never change the schema; refuse to start when it is missing or old",
    "migrate_url": "a login that may migrate, if the worker's own may not",
    "role_prefix": "prefix of the server's roles, for independent installations on one server",
    "child_env": "hand these variables to children although they are the worker's own",
    "strict_env": "children get only `PATH`, `HOME`, `LANG` and the like, and what `child_env` names",
    "leave_unknown": "leave tasks without a handler alone, for rolling deploys",
    "max_envelope": "longest answer of a child",
    "max_in_flight": "how much of payloads and results may wait in the worker's memory; then it claims no more. "
    "One task more always fits",
    "metrics_address": "where to serve `/livez`, `/readyz` and `/metrics`, for example `127.0.0.1:9187`: see "
    "[metrics](metrics.md). Port 0 is a free one, which the log names",
    "log_payloads": "allow payloads and results in log fields",
    "log_level": "`debug`, `info`, `warning`, `error`",
}
_PROVIDER_MEANINGS = {
    "email_provider": "`smtp`, `resend`, `console` or `file`",
    "sms_provider": "`twilio`, `console` or `file`",
    "email_from": "sender of emails that name none: `shop@example.org` or `Shop <shop@example.org>`",
    "sms_from": "sender of SMS that name none: a number, a name, or the SID of a messaging service. "
    "The own variable wins over `TWILIO_FROM`",
    "smtp_url": "`smtp://user:password@host:587?tls=starttls`",
    "resend_api_key": "Resend's key; one that may only send is enough",
    "resend_api_url": "another address of its API",
    "twilio_account_sid": "Twilio's account, `AC…`",
    "twilio_auth_token": "its token",
    "twilio_api_url": "another address of its API",
    "outbox_dir": "folder of the provider `file`",
}


_GATEWAY_MEANINGS = {
    "listen": "host and port; 0 lets the system choose a port",
    "tls_cert": "certificate and its chain, PEM",
    "tls_key": "its key, PEM, without a password. None: it is in the certificate's file",
    "insecure_plain_http": "listen beyond this host without TLS",
    "ticket_keys": "one key of tickets, or two while they change",
    "cors_origins": "pages of these origins may ask",
    "max_waiters": "so many may wait at one time",
    "max_body": "longest body of a request",
    "keep_alive_s": "a sign of life on a stream of events after so much silence",
}


def default_of(option: Option) -> str:
    if option.field in _DEFAULTS:
        return _DEFAULTS[option.field]
    value = getattr(GatewaySettings if option in GATEWAY else Settings, option.field)
    if isinstance(value, bool) or value in (None, (), ""):
        return "no" if value is False else "none"
    if option.field in ("max_memory", "max_envelope", "max_in_flight", "max_body"):
        return f"{value // 2**30}GiB" if value % 2**30 == 0 else f"{value // 2**20}MiB"
    return plain(value) if option.field.endswith("_s") else str(value)


def table(options: tuple[Option, ...] = OPTIONS, meanings: dict[str, str] = _MEANINGS) -> str:
    lines = ["| flag | variable | key in the file | default | meaning |", "|---|---|---|---|---|"]
    for option in options:
        variables = ", ".join(f"`{name}`" for name in option.variables) or "–"
        flag, key = (f"`{name}`" if name else "–" for name in (option.flag, option.key))
        lines.append(f"| {' | '.join((flag, variables, key, default_of(option), meanings[option.field]))} |")
    return "\n".join(lines) + "\n"


def provider_table() -> str:
    lines = ["| variable | key in the file | default | meaning |", "|---|---|---|---|"]
    for option in PROVIDERS:
        variables = ", ".join(f"`{name}`" for name in option.variables)
        key = f"`{option.key}`" if option.key else "– (a secret)"
        value = getattr(ProviderSettings, option.field)
        default = f"`{value}`" if value else "none"
        lines.append(f"| {variables} | {key} | {default} | {_PROVIDER_MEANINGS[option.field]} |")
    return "\n".join(lines) + "\n"


def drawn(page: str, table: str) -> str:
    """The page with the table of today."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}{table}{END}{tail}"


def pages() -> dict[Path, str]:
    tables = {PAGE: table(), PROVIDERS_PAGE: provider_table(), GATEWAY_PAGE: table(GATEWAY, _GATEWAY_MEANINGS)}
    return {path: drawn(path.read_text("utf-8"), table) for path, table in tables.items()}


if __name__ == "__main__":
    for path, page in pages().items():
        path.write_text(page, "utf-8")
