"""`reproq serve`: the gateway. Settings, database, schema, then the loop."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import click

from reproq import log
from reproq.cli.options import loaded, settings_options
from reproq.cli.waiting import patiently
from reproq.config import Settings, SettingsError, load_gateway
from reproq.config.options import GATEWAY

_NEEDED = ("starlette", "uvicorn", "h11")
_HELP = {
    "listen": ("HOST:PORT", "Where to listen (default 127.0.0.1:8080)."),
    "tls_cert": ("FILE", "Certificate and its chain, PEM."),
    "tls_key": ("FILE", "Its private key, PEM, without password (default: in the certificate's file)."),
    "insecure_plain_http": ("", "Listen beyond this host without TLS, because something in front does it."),
    "cors_origins": ("ORIGIN", "Let pages of this origin ask, e.g. https://shop.example (repeatable)."),
    "max_waiters": ("N", "So many may wait at one time; then 503 (default 5000)."),
    "max_body": ("SIZE", "Longest body of a request (default 2MiB)."),
    "keep_alive_s": ("TIME", "A sign of life on a stream of events after so much silence (default 15s)."),
}


def _gateway_options(function: Any) -> Any:
    flags = {option.field: option.flag for option in GATEWAY if option.flag}
    for field, flag in reversed(flags.items()):
        metavar, text = _HELP[field]
        if metavar:
            option = click.option(flag, field, metavar=metavar, multiple=field == "cors_origins", help=text)
        else:
            option = click.option(flag, field, is_flag=True, help=text)
        function = option(function)
    return function


@click.command("serve")
@_gateway_options
@settings_options("database_url", "log_level")
def command(config: str | None, database_url: str | None, log_level: str | None, **flags: Any) -> int:
    """Answer HTTP: enqueue, wait for results, follow events, cancel.

    SIGTERM or Ctrl-C ends it, a second one at once.

    \b
    On this host only, without TLS:
      reproq serve --database-url postgresql://shop@db/shop
    For others; keys of tickets come from the environment (REPROQ_TICKET_KEY):
      reproq serve --listen 0.0.0.0:8443 --tls-cert shop.pem --tls-key shop.key
    Behind a proxy that does TLS:
      reproq serve --listen 0.0.0.0:8080 --insecure-plain-http

    \b
    Its login is your application's: it sees the tasks that this login enqueued.
    Tokens for programs: reproq tokens create. Tickets for browsers: docs/http.md.
    """
    _require_extra()
    asked = {"config": config, "database_url": database_url, "log_level": log_level}
    gateway = load_gateway(flags, os.environ, config)
    settings = loaded(asked)
    log.setup(settings.log_level)
    log.hide(gateway.ticket_keys)
    address = _database(settings)
    from reproq.web.server import serve

    return serve(gateway, address)


def _require_extra() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(f"the gateway needs {', '.join(missing)}: run pip install 'reproq[serve]'")


def _database(settings: Settings) -> str:
    if settings.database_url is None:
        raise SettingsError(
            "a gateway serves a database that is there already: give --database-url or set REPROQ_DATABASE_URL"
        )
    patiently(lambda: _require_schema(str(settings.database_url)))
    return settings.database_url


def _require_schema(dsn: str) -> None:
    from psycopg import errors

    from reproq.db.connect import connect
    from reproq.db.migration.files import load
    from reproq.queue import run
    from reproq.queue.workers import serves_code

    with connect(dsn, name="reproq serve") as connection:
        try:
            fits = run(connection, serves_code(load().schema_version))
        except errors.InsufficientPrivilege:
            text = "this login may not use Reproq: GRANT reproq_app TO it, or take your application's login"
            raise SettingsError(text) from None
        except (errors.UndefinedFunction, errors.InvalidSchemaName):
            fits = False
    if not fits:
        raise SettingsError("the database's schema isn't of this program's version: run `reproq migrate`")
