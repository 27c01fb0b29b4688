"""`reproq migrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reproq import log
from reproq.cli.options import loaded, settings_options
from reproq.cli.waiting import patiently
from reproq.config import SettingsError


@click.command("migrate")
@settings_options("database_url", "migrate_url", "role_prefix")
@click.option("--sql", "as_sql", is_flag=True, help="Print everything for `psql -f` instead of running it.")
@click.option("--harden-database", "harden", is_flag=True, help="Also take TEMP, and CREATE on public, from everybody.")
@click.option("--repair", is_flag=True, help="Apply every function and right again, whatever was applied before.")
@click.option("--roles-sql", "as_roles", is_flag=True, help="Print only what an administrator must run: the roles.")
@click.option("--dir", "folder", metavar="DIR", help="Apply your own processes from DIR instead, each file once.")
@click.option("--source", metavar="NAME", help="What the ledger calls DIR (default: the folder's name).")
def command(
    as_sql: bool, as_roles: bool, harden: bool, repair: bool, folder: str | None, source: str | None, **flags: Any
) -> None:
    """Bring the database's schema up to this version; safe to repeat, and to run from many hosts at once.

    \b
    As a login that may create roles and schemas:
      reproq migrate --database-url postgresql://admin@db/shop
    Your login may not create roles: let an administrator run this once
      reproq migrate --roles-sql | psql -v login=deployer postgresql://root@db
    Read before you run, or apply by another tool:
      reproq migrate --sql > reproq.sql
    Nobody but the owner needs temporary tables, or tables in schema public:
      reproq migrate --harden-database --database-url postgresql://admin@db/shop
    Somebody changed a function of Reproq's, and doctor says so:
      reproq migrate --repair --database-url postgresql://admin@db/shop
    Two independent installations on one server:
      reproq migrate --role-prefix acme_ --database-url postgresql://admin@db/acme
    Your own processes; the login needs reproq_process_author, and CREATE here:
      reproq migrate --dir db/processes --dsn postgresql://deployer@db/shop
    """
    log.setup("info", human=True)
    if as_sql and as_roles:
        raise click.UsageError("--sql already holds the roles; give only one of --sql and --roles-sql")
    if harden and (as_sql or as_roles or folder is not None):
        raise click.UsageError(
            "--harden-database asks the database who would lose something; give it neither --sql, --roles-sql nor --dir"
        )
    if repair and (as_sql or as_roles or folder is not None):
        raise click.UsageError("--repair goes with neither --sql, --roles-sql nor --dir")
    if (folder is None and source is not None) or (folder is not None and (as_sql or as_roles)):
        raise click.UsageError("--source goes with --dir, and neither with --sql or --roles-sql")
    settings = loaded(flags, need_database=False)
    from reproq.db import migrate

    if as_sql or as_roles:
        click.echo((migrate.roles_sql if as_roles else migrate.sql)(settings.role_prefix))
        return
    given = settings.database_url if settings.database_source == "--database-url" else None
    dsn = given or settings.migrate_url or settings.database_url
    if dsn is None:
        raise SettingsError("no database: give --database-url postgresql://… or set REPROQ_MIGRATE_URL")
    if folder is not None:
        _own_processes(dsn, folder, source)
        return
    report = patiently(lambda: migrate.migrate(dsn, role_prefix=settings.role_prefix, say=click.echo, repair=repair))
    if not report.applied:
        click.echo(f"nothing to do: the schema is at version {report.after}")
    if harden:
        migrate.harden(dsn, say=click.echo)


def _own_processes(dsn: str, folder: str, source: str | None) -> None:
    from reproq.db import process_files

    applied = patiently(lambda: process_files.apply(dsn, Path(folder), source=source, say=click.echo))
    click.echo(f"{len(applied)} files applied" if applied else "nothing to do: every file was applied before")
