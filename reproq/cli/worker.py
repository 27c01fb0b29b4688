"""`reproq worker` and `python -m cmd.worker`: settings, database, schema, then the runner."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any, NoReturn

import click

from reproq import log, signals
from reproq.cli import exits
from reproq.cli.options import WORKER, loaded, settings_options
from reproq.cli.run import run
from reproq.cli.waiting import patiently
from reproq.config import Settings, passwords
from reproq.log import Event


class _Stopped(BaseException):
    """Asked to stop before the runner took the signals over: nothing was claimed yet."""


@click.command("worker")
@settings_options(*WORKER)
def command(**flags: Any) -> int:
    """Run tasks until SIGTERM or Ctrl-C; a second one ends at once.

    \b
    No PostgreSQL at hand; the printed addresses are for psql and your app:
      reproq worker --embedded --app shop.tasks
    Your own PostgreSQL, two queues, eight processes:
      reproq worker --database-url postgresql://worker@db/shop --app shop.tasks \\
                    --queue default --queue slow --processes 8
    Only some types, and end when nothing is left:
      reproq worker --type-prefix media. --app shop.media --until-empty

    \b
    Every flag can stand in the environment (REPROQ_DATABASE_URL, REPROQ_QUEUES,
    WORKER_TYPE_PREFIXES, …) or in reproq.toml (queues = ["default", "slow"]).
    Flags win over the environment over the file.

    \b
    Exit status: 0 everything claimed was finished or given back · 1 otherwise
    2 wrong usage or settings · 70 the children can't be started
    """
    _hide_arguments()
    return work(loaded(flags, worker=True))


def main() -> NoReturn:
    """`python -m cmd.worker`."""
    run(command, "python -m cmd.worker")


def _hide_arguments() -> None:
    """An address on the command line may hold a password, and the database may be long in coming."""
    from setproctitle import setproctitle

    setproctitle("reproq worker: starting")


def work(settings: Settings) -> int:
    log.setup(settings.log_level, payloads=settings.log_payloads)
    log.catch_threads()
    for number in signals.stopping():
        signal.signal(number, _stop)
    try:
        with _database(settings) as ready:
            _prepare(ready)
            return _run(ready)
    except _Stopped:
        log.say(Event.WORKER_STOPPED, "stopped before anything was claimed")
        return exits.DONE


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Stopped


def _run(settings: Settings) -> int:
    from reproq.runner import run as run_worker

    return run_worker(settings)


@contextmanager
def _database(settings: Settings) -> Iterator[Settings]:
    """The settings with an address: the given one, or that of the embedded server, which is stopped last."""
    if not settings.embedded:
        yield settings
        return
    from reproq.db.embedded import EmbeddedServer, Reviver

    server = EmbeddedServer(settings.embedded_dir)
    try:
        server.start()
        if not settings.no_migrate:
            server.install(say=_say_migrated)
        log.hide(secret for dsn in (server.admin_dsn, server.worker_dsn, server.app_dsn()) for secret in passwords(dsn))
        _introduce(server.folder, server.joined, server.admin_dsn, server.app_dsn())
        with Reviver(server, _say_revived):
            yield replace(settings, database_url=server.worker_dsn, database_source=None)
    finally:
        for number in signals.stopping():  # a third Ctrl-C must not leave the server running
            signal.signal(number, signal.SIG_IGN)
        server.stop()


def _say_revived(line: str) -> None:
    log.say(Event.EMBEDDED_RESTARTED, line, logging.WARNING)


def _introduce(folder: object, joined: bool, admin: str, app: str) -> None:
    """On stdout, for people: the log never shows a password."""
    how = "joined" if joined else "started"
    click.echo(f"embedded PostgreSQL {how} in {folder}")
    click.echo(f"  look inside:   psql '{admin}'")
    click.echo(f"  for your app:  export REPROQ_DATABASE_URL='{app}'")


def _prepare(settings: Settings) -> None:
    from reproq.db import migrate

    dsn = settings.database_url
    assert dsn is not None

    def ensure() -> None:
        migrate.ensure(
            dsn,
            migrate_dsn=settings.migrate_url,
            no_migrate=settings.no_migrate,
            role_prefix=settings.role_prefix,
            say=_say_migrated,
        )

    patiently(ensure)
    patiently(lambda: _warn_about_login(dsn))


def _say_migrated(line: str) -> None:
    log.say(Event.MIGRATED, line)


def _warn_about_login(dsn: str) -> None:
    from reproq.db.connect import connect
    from reproq.db.inspection import might_of_login

    with connect(dsn, name="reproq worker") as connection:
        might = might_of_login(connection)
    if might:
        log.say(
            Event.LOGIN_TOO_MIGHTY,
            f"the worker's login {might}: task code that gets hold of it owns the database; "
            "use a login with GRANT worker_service_user and nothing else",
            level=logging.WARNING,
        )
