"""`reproq migrate --harden-database`: what everybody may do is taken away on request, and said before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from reproq.db import migrate
from reproq.db.connect import Connection, as_sql, connect
from reproq.db.errors import MigrationRefused

from .test_migrate_roles import NewLogin, name_of

TEMP = "select has_database_privilege('public', current_database(), 'TEMP')"
CREATE = "select has_schema_privilege('public', 'public', 'CREATE')"


def test_who_loses_what_is_told_and_then_it_is_gone(database: Any, new_login: NewLogin) -> None:
    plain, given = new_login(database), new_login(database)
    database.execute(f"grant temporary on database {database.name} to {name_of(given)}")
    database.execute("grant create on schema public to public")
    said: list[str] = []
    assert len(migrate.harden(database.dsn, say=said.append)) == 2
    assert (database.execute(TEMP), database.execute(CREATE)) == ([(False,)], [(False,)])
    assert [name_of(plain) in line for line in said] == [True, True]
    assert [name_of(given) in line for line in said] == [False, True]
    assert all("postgres" not in line for line in said)
    with connect(given, name="test") as conn:
        conn.execute("create temp table still (id int)")


def test_a_second_time_there_is_nothing_to_do(database: Any) -> None:
    migrate.harden(database.dsn, say=lambda _: None)
    said: list[str] = []
    assert migrate.harden(database.dsn, say=said.append) == []
    assert "nothing to do" in said[0]


def test_a_plain_migration_takes_nothing_from_anybody(database: Any) -> None:
    migrate.migrate(database.dsn, say=lambda _: None)
    assert database.execute(TEMP) == [(True,)]


def test_who_may_not_is_told_who_may(database: Any, new_login: NewLogin) -> None:
    with pytest.raises(MigrationRefused, match="as its owner or as a superuser"):
        migrate.harden(new_login(database), say=lambda _: None)


def test_the_command_hardens_after_it_migrated(new_database: Callable[..., Any]) -> None:
    database = new_database()
    command = [sys.executable, "-m", "reproq", "migrate", "--harden-database", "--database-url", database.dsn]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "harden: nobody but its owner may create temporary tables" in done.stdout
    assert database.execute(TEMP) == [(False,)]


def test_a_worker_works_on_a_hardened_database(database: Any) -> None:
    migrate.harden(database.dsn, say=lambda _: None)
    with connect(database.app_dsn, name="t") as app, connect(database.worker_dsn, name="t") as worker:
        app.execute("select queues.enqueue('t')")
        row = worker.execute("select id, claim_no from queues.claim('w/1/x', null, null, '30 s', 1)").fetchone()
        assert row
        outcomes = "jsonb_build_array(jsonb_build_object('id', %s::bigint, 'claim_no', 1, 'success', true))"
        finish = f"select answer from queues.finish('w/1/x', {outcomes})"
        assert worker.execute(as_sql(finish), [row[0]]).fetchone() == ("done",)


AUTHOR = """
create schema billing authorization {author};
set role {author};
alter default privileges revoke execute on functions from public;
grant usage on schema billing to worker_service_user;
create function billing.close(payload jsonb) returns jsonb language sql as 'select payload';
grant execute on function billing.close to worker_service_user;
select internal.allow_schema('billing')"""


def run_as(conn: Connection, *statements: str) -> None:
    for statement in statements:
        conn.execute(as_sql(statement))


def test_a_function_added_tomorrow_is_private_for_the_owner_and_for_an_author(
    database: Any, new_login: NewLogin
) -> None:
    author = name_of(new_login(database, "in role reproq_process_author"))
    with connect(database.dsn, name="test") as conn:
        run_as(conn, AUTHOR.format(author=author))
        body = "(payload jsonb) returns jsonb language sql as 'select payload'"
        run_as(conn, f"create function billing.tomorrow{body}")
        run_as(conn, "set role reproq_owner")
        run_as(conn, "create function queues.tomorrow() returns int language sql as 'select 1'")
        run_as(conn, "create type internal.tomorrow as enum ('a')", "create table comms.tomorrow (id int)")
        run_as(conn, "reset role")
        for asked in (
            "has_function_privilege('public', 'billing.tomorrow(jsonb)', 'EXECUTE')",
            "has_function_privilege('worker_service_user', 'billing.tomorrow(jsonb)', 'EXECUTE')",
            "has_function_privilege('public', 'queues.tomorrow()', 'EXECUTE')",
            "has_type_privilege('public', 'internal.tomorrow', 'USAGE')",
            "has_table_privilege('public', 'comms.tomorrow', 'SELECT')",
        ):
            assert conn.execute(as_sql(f"select {asked}")).fetchone() == (False,), asked


def test_an_author_that_forgets_the_default_privileges_is_warned(database: Any, new_login: NewLogin) -> None:
    author = name_of(new_login(database, "in role reproq_process_author"))
    heard: list[str] = []
    with connect(database.dsn, name="test") as conn:
        conn.add_notice_handler(lambda notice: heard.append(f"{notice.message_primary} {notice.message_hint}"))
        run_as(conn, AUTHOR.format(author=author).replace("alter default", "-- alter default"))
    assert len(heard) == 1
    assert f"alter default privileges for role {author} revoke execute on functions from public" in heard[0]
