"""A database in which everybody may create, as PostgreSQL 14 makes them: an administrator runs nothing of theirs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from reproq.db import migrate
from reproq.db.connect import as_sql, connect
from reproq.db.migration import roles

from .test_migrate_roles import NewLogin

NewDatabase = Callable[..., Any]
# Twins that fit a call better than the server's own function, which takes other text or anything.
TRAPS = (
    ("format", "text, text", "text", "''"),
    ("format", "text, name", "text", "''"),
    ("pg_has_role", "name, text, text", "boolean", "true"),
    ("has_database_privilege", "text, name, text", "boolean", "true"),
    ("has_database_privilege", "name, name, text", "boolean", "true"),
    ("to_jsonb", "record", "jsonb", "'{}'"),
    ("unnest", "bigint[]", "bigint", "1"),
    ("oid_is", "oid, integer", "boolean", "true"),
)
OPERATORS = "create operator public.{} (leftarg = oid, rightarg = integer, function = public.oid_is)"


@pytest.fixture
def trapped(new_database: NewDatabase, new_login: NewLogin) -> Any:
    database = new_database()
    database.execute("grant create on schema public to public")
    with connect(new_login(database), name="test") as attacker:
        attacker.execute("create table public.loot (who text, way text); grant all on public.loot to public")
        for name, arguments, returns, answer in TRAPS:
            body = f"begin insert into public.loot values (current_user, '{name}'); return {answer}; end"
            attacker.execute(as_sql(
                f"create function public.{name}({arguments}) returns {returns} language plpgsql as $f$ {body} $f$"
            ))  # fmt: skip
        for operator in ("=", "<>"):
            attacker.execute(as_sql(OPERATORS.format(operator)))
    return database


def loot(database: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = database.execute("select who, way from public.loot")
    return found


def test_the_traps_are_real_for_whoever_doesnt_pin_its_names(trapped: Any) -> None:
    trapped.execute("select format('%I', 'x'::text), 1::oid = 1")
    assert sorted(way for _, way in loot(trapped)) == ["format", "oid_is"]


def test_the_scripts_run_nothing_of_others_as_the_administrator(trapped: Any, psql: Any, prefix: str) -> None:
    for script in (migrate.roles_sql(prefix), migrate.sql(prefix)):
        done = psql(trapped.dsn, script)
        assert (done.returncode, done.stderr, loot(trapped)) == (0, "", [])


def test_a_migration_runs_nothing_of_others_as_the_administrator(trapped: Any, prefix: str) -> None:
    migrate.migrate(trapped.dsn, role_prefix=prefix, say=lambda _: None)
    migrate.migrate(trapped.dsn, repair=True, say=lambda _: None)
    migrate.harden(trapped.dsn, say=lambda _: None)
    assert loot(trapped) == []


def test_neither_does_one_in_a_database_whose_owner_chose_the_search_path(trapped: Any, prefix: str) -> None:
    trapped.execute("create function public.current_database() returns name language sql as"
                    " 'insert into public.loot values (current_user, ''database''); select null::name'")  # fmt: skip
    trapped.execute(f"alter database {trapped.name} set search_path = public, pg_catalog")
    migrate.migrate(trapped.dsn, role_prefix=prefix, say=lambda _: None)
    migrate.harden(trapped.dsn, say=lambda _: None)
    assert loot(trapped) == []


def test_an_administrators_commands_run_nothing_of_others(trapped: Any, prefix: str) -> None:
    migrate.migrate(trapped.dsn, role_prefix=prefix, say=lambda _: None)
    trapped.execute("select queues.put_schedule('s', 't', every => '1 day')")
    trapped.execute("select queues.create_token('t', sha256('t'), '{tasks:read}')")
    trapped.execute("select queues.put_sink('hook', 'https://hooks.example.com')")
    for command in ("tokens list", "schedules list", "dispatch sinks list", "dispatch parked", "doctor --security"):
        called = [sys.executable, "-m", "reproq", *command.split(), "--database-url", trapped.dsn]
        done = subprocess.run(called, capture_output=True, text=True, check=False)
        assert (done.returncode in (0, 1), "Traceback" in done.stderr) == (True, False), done.stderr
        assert (command, loot(trapped)) == (command, [])


def test_what_is_asked_within_a_transaction_leaves_it_its_search_path(new_database: NewDatabase) -> None:
    """A dry run, or a file of a process, goes on with names of its own."""
    with connect(new_database().dsn, name="test") as conn, conn.transaction():
        conn.execute("set local search_path = shop, public")
        roles.installed_owner(conn)
        roles.may_become(conn, "postgres")
        roles.who(conn)
        assert conn.execute("show search_path").fetchone() == ("shop, public",)
