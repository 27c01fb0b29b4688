"""What a database says about its own schema, and how the runner writes that down.

The ledger tables are the runner's own. `internal.schema_state()` lets the worker read the version without any right on
a table. Every statement is safe to repeat, and also stands in the output of `reproq migrate --sql`.
"""

import dataclasses

import psycopg

from reproq.db.connect import Connection, as_sql
from reproq.db.migration.files import Migrations, SqlFile

TABLES = """create table if not exists internal.migration (
    name text primary key, sha256 text not null, applied_at timestamptz not null default now());
create table if not exists internal.function_file (
    name text primary key, sha256 text not null, applied_at timestamptz not null default now());
create table if not exists internal.schema_version (
    only_row boolean primary key default true check (only_row),
    schema_version integer not null, compatible_from integer not null, text_sha256 text not null,
    role_prefix text not null, applied_at timestamptz not null default now());
create or replace function internal.schema_state()
    returns table (schema_version integer, compatible_from integer, text_sha256 text, role_prefix text)
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select v.schema_version, v.compatible_from, v.text_sha256, v.role_prefix from internal.schema_version v;
end;
revoke all on function internal.schema_state() from public;"""

# Who runs a long-lived program of ours, or builds on the schema, and so must be able to see whether that fits.
READERS = ("worker_service_user", "reproq_dispatcher", "reproq_process_author")


@dataclasses.dataclass(frozen=True)
class MigrationState:
    """The schema that is installed (None: none, or not for this login's eyes) against this code's."""

    installed: int | None
    compatible_from: int | None
    code: int
    current: bool
    runnable: bool
    role_prefix: str = ""
    readable: bool = True

    @property
    def newer(self) -> bool:
        return self.installed is not None and self.installed > self.code


def read(conn: Connection, files: Migrations) -> MigrationState:
    """Compare the database's schema with this code's."""
    try:
        with conn.transaction():
            found = _row(conn)
    except psycopg.errors.InsufficientPrivilege:
        return MigrationState(None, None, files.schema_version, False, False, readable=False)
    if found is None:
        return MigrationState(None, None, files.schema_version, False, False)
    installed, compatible_from, text_sha256, prefix = found
    current = installed == files.schema_version and text_sha256 == files.text_sha256
    runnable = current or compatible_from <= files.schema_version < installed
    return MigrationState(installed, compatible_from, files.schema_version, current, runnable, prefix)


def _row(conn: Connection) -> tuple[int, int, str, str] | None:
    if not is_there(conn):
        return None
    row = conn.execute("select * from internal.schema_state()").fetchone()
    return None if row is None else (int(str(row[0])), int(str(row[1])), str(row[2]), str(row[3]))


def is_there(conn: Connection) -> bool:
    """Say whether Reproq's ledger is in this database, without needing any right on it."""
    row = conn.execute(
        "select count(*) from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname = 'internal' and p.proname = 'schema_state'"
    ).fetchone()
    return row != (0,)


def applied(conn: Connection, table: str) -> dict[str, str]:
    """Return name → hash of what a ledger table says has been applied."""
    rows = conn.execute(as_sql(f"select name, sha256 from internal.{table}")).fetchall()
    return {str(name): str(sha256) for name, sha256 in rows}


def note_statement(table: str, file: SqlFile) -> str:
    """Return the statement that notes a file as applied."""
    return (
        f"insert into internal.{table} (name, sha256) values ('{file.name}', '{file.sha256}')"
        f" on conflict (name) do update set sha256 = excluded.sha256, applied_at = now();"
    )


def version_statement(files: Migrations) -> str:
    """Return the statement that says which version the database now has."""
    values = f"{files.schema_version}, {files.compatible_from}, '{files.text_sha256}', '{files.role_prefix}'"
    columns = ("schema_version", "compatible_from", "text_sha256", "role_prefix")
    changes = ", ".join(f"{column} = excluded.{column}" for column in columns)
    return (
        f"insert into internal.schema_version ({', '.join(columns)}) values ({values})"
        f" on conflict (only_row) do update set {changes}, applied_at = now();"
    )


def reader_grants(files: Migrations) -> str:
    """Return the grants that let the programs' roles see the version."""
    readers = ", ".join(files.role_prefix + name for name in READERS)
    return (
        f"grant usage on schema internal to {readers};\ngrant execute on function internal.schema_state() to {readers};"
    )
