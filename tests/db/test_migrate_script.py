"""`reproq migrate --sql` and `--roles-sql` in psql's own hands."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reproq.db import migrate as runner
from reproq.db.connect import connect
from reproq.db.migration import roles
from reproq.db.migration.files import load

from . import aids
from .test_migrate import migrate, owners
from .test_migrate_roles import name_of

NewDatabase = Callable[..., Any]
NewLogin = Callable[..., str]


def succeed(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def contents(database: Any) -> list[tuple[Any, ...]]:
    statement = """
        select 'migration', name, sha256 from internal.migration
        union all select 'function', name, sha256 from internal.function_file
        union all select 'version', schema_version::text || compatible_from::text, text_sha256 || role_prefix
        from internal.schema_version order by 1, 2"""
    rows: list[tuple[Any, ...]] = database.execute(statement)
    return rows


def test_the_script_leaves_the_same_database_as_the_runner(new_database: NewDatabase, psql: Any, folder: Path) -> None:
    by_runner, by_script = new_database(), new_database()
    migrate(by_runner.dsn, folder)
    succeed(psql(by_script.dsn, runner.sql(folder=folder)))
    assert contents(by_script) == contents(by_runner)
    assert owners(by_script) == owners(by_runner) == {"reproq_owner"}
    assert migrate(by_script.dsn, folder) == runner.Report(1, 1)


def test_the_script_runs_twice_and_over_an_older_version(new_database: NewDatabase, psql: Any, folder: Path) -> None:
    database = new_database()
    succeed(psql(database.dsn, runner.sql(folder=folder)))
    succeed(psql(database.dsn, runner.sql(folder=folder)))
    (folder / "0002_more.sql").write_text("alter table queues.thing add column more int;")
    aids.set_version(folder, 2)
    succeed(psql(database.dsn, runner.sql(folder=folder)))
    assert migrate(database.dsn, folder) == runner.Report(2, 2)


def test_the_script_of_older_code_refuses_a_newer_schema(new_database: NewDatabase, psql: Any, folder: Path) -> None:
    database = new_database()
    old = runner.sql(folder=folder)
    aids.set_version(folder, 2)
    migrate(database.dsn, folder)
    done = psql(database.dsn, old)
    assert done.returncode != 0
    assert "the schema is version 2, newer than this script's 1" in done.stderr


def test_the_script_refuses_somebody_elses_schema(new_database: NewDatabase, psql: Any, folder: Path) -> None:
    database = new_database()
    database.execute("create schema queues")
    database.execute("create table queues.theirs ()")
    done = psql(database.dsn, runner.sql(folder=folder))
    assert done.returncode != 0
    assert "isn't Reproq's" in done.stderr


def test_a_login_with_createrole_that_owns_the_database_can_run_the_script(
    new_database: NewDatabase, new_login: NewLogin, psql: Any, folder: Path, prefix: str
) -> None:
    database = new_database()
    succeed(psql(new_login(database, "createrole", owns=True), runner.sql(prefix, folder=folder)))
    assert owners(database) == {f"{prefix}reproq_owner"}


def test_after_the_roles_script_a_plain_login_migrates(
    new_database: NewDatabase, new_login: NewLogin, psql: Any, folder: Path, prefix: str
) -> None:
    database = new_database()
    login = new_login(database)
    succeed(psql(database.dsn, runner.roles_sql(prefix, folder=folder), "-v", f"login={name_of(login)}"))
    assert len(migrate(login, folder, prefix).applied) == 3
    assert owners(database) == {f"{prefix}reproq_owner"}


def test_the_roles_script_runs_without_naming_a_login_and_again(
    new_database: NewDatabase, psql: Any, folder: Path, prefix: str
) -> None:
    database = new_database()
    for _ in range(2):
        succeed(psql(database.dsn, runner.roles_sql(prefix, folder=folder)))
    with connect(database.dsn, name="t") as conn:
        assert roles.missing_roles(conn, load(folder, prefix)) == []
