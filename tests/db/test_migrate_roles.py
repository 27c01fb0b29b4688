"""As whom the schema is made: superuser, CREATEROLE, member, and a login that may nothing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reproq.db import migrate as runner
from reproq.db.connect import connect
from reproq.db.embedded import EmbeddedServer
from reproq.db.errors import MigrationRefused
from reproq.db.migration.files import load

from . import aids
from .aids import until
from .test_migrate import migrate, owners

NewDatabase = Callable[..., Any]
NewLogin = Callable[..., str]


def name_of(dsn: str) -> str:
    return dsn.split("//")[1].split(":")[0]


def test_a_login_with_createrole_that_owns_the_database_migrates_without_being_superuser(
    new_database: NewDatabase, new_login: NewLogin, folder: Path, prefix: str
) -> None:
    database = new_database()
    login = new_login(database, "createrole", owns=True)
    assert len(migrate(login, folder, prefix).applied) == 3
    assert owners(database) == {f"{prefix}reproq_owner"}
    (folder / "0002_more.sql").write_text("alter table queues.thing add column more int;")
    aids.set_version(folder, 2)
    assert migrate(login, folder).after == 2


def test_a_login_with_createrole_that_doesnt_own_the_database_is_told_which_grant_it_needs(
    new_database: NewDatabase, new_login: NewLogin, folder: Path, prefix: str
) -> None:
    database = new_database()
    login = new_login(database, "createrole")
    expected = f"GRANT CREATE ON DATABASE {database.name} TO {prefix}reproq_owner"
    with pytest.raises(MigrationRefused, match=expected):
        migrate(login, folder, prefix)
    database.execute(expected)
    assert len(migrate(login, folder, prefix).applied) == 3


def test_a_member_of_the_owner_role_migrates_without_any_right_of_its_own(
    new_database: NewDatabase, new_login: NewLogin, folder: Path
) -> None:
    migrate(new_database().dsn, folder)  # makes the roles
    database = new_database()
    member = new_login(database, "in role reproq_owner")
    database.execute(f"grant create on database {database.name} to reproq_owner")
    assert len(migrate(member, folder).applied) == 3
    assert owners(database) == {"reproq_owner"}


def test_a_member_that_doesnt_inherit_migrates_all_the_same(
    new_database: NewDatabase, new_login: NewLogin, folder: Path
) -> None:
    database = new_database()
    migrate(database.dsn, folder)
    member = new_login(database, "noinherit in role reproq_owner")
    aids.set_version(folder, 2)
    assert migrate(member, folder).after == 2


def test_a_worker_login_starts_on_a_current_schema_and_is_refused_on_an_old_one(
    new_database: NewDatabase, new_login: NewLogin, folder: Path
) -> None:
    database = new_database()
    migrate(database.dsn, folder)
    worker = new_login(database, "in role worker_service_user")
    runner.ensure(worker, folder=folder)
    aids.set_version(folder, 2)
    with pytest.raises(MigrationRefused, match=r"version 1, this code needs 2.*run `reproq migrate` as a superuser"):
        runner.ensure(worker, folder=folder)
    runner.ensure(worker, migrate_dsn=database.dsn, folder=folder, say=lambda _: None)
    runner.ensure(worker, folder=folder)


def test_a_migrating_address_of_another_database_is_noticed(
    new_database: NewDatabase, new_login: NewLogin, folder: Path
) -> None:
    database, other = new_database(), new_database()
    migrate(database.dsn, folder)
    worker = new_login(database, "in role worker_service_user")
    aids.set_version(folder, 2)
    with pytest.raises(MigrationRefused, match="do the two addresses name the same database"):
        runner.ensure(worker, migrate_dsn=other.dsn, folder=folder, say=lambda _: None)


def test_a_login_that_belongs_to_no_role_is_told_to_be_made_a_worker(
    new_database: NewDatabase, new_login: NewLogin, folder: Path
) -> None:
    database = new_database()
    migrate(database.dsn, folder)
    with pytest.raises(MigrationRefused, match="GRANT worker_service_user TO"):
        runner.ensure(new_login(database), folder=folder)


def test_where_no_role_can_be_created_the_login_owns_all_with_one_warning(
    new_database: NewDatabase, new_login: NewLogin, folder: Path, prefix: str
) -> None:
    database = new_database()
    login = new_login(database, owns=True)
    said: list[str] = []
    assert migrate(login, folder, prefix, said).applied == ("0001_initial.sql", "queues.count_things")
    assert owners(database) == {name_of(login)}
    assert [line for line in said if line.startswith("warning")] == [
        f"warning: login {name_of(login)} may not create roles, so it owns all of Reproq's schema itself and every"
        f" login that uses it must be {name_of(login)}; an administrator can run `reproq migrate --roles-sql` first"
    ]
    said.clear()
    runner.ensure(login, folder=folder, say=said.append)
    assert said == []
    aids.set_version(folder, 2)
    assert migrate(login, folder).after == 2


def test_roles_that_come_later_get_their_grants_from_the_next_migration(
    new_database: NewDatabase, new_login: NewLogin, folder: Path, prefix: str
) -> None:
    database = new_database()
    login = new_login(database, owns=True)
    migrate(login, folder, prefix)
    with connect(database.dsn, name="t") as conn:
        conn.execute(load(folder, prefix).roles.text.encode())
    assert migrate(login, folder).applied == ("grants.sql",)
    may = f"select has_function_privilege('{prefix}worker_service_user', 'queues.count_things()', 'EXECUTE')"
    assert database.execute(may) == [(True,)]
    assert migrate(login, folder).applied == ()


def test_another_login_is_told_who_owns_the_installation(
    new_database: NewDatabase, new_login: NewLogin, folder: Path, prefix: str
) -> None:
    database = new_database()
    owner = new_login(database, owns=True)
    migrate(owner, folder, prefix)
    aids.set_version(folder, 2)
    with pytest.raises(MigrationRefused, match=f"run `reproq migrate` as {name_of(owner)}"):
        migrate(new_login(database), folder)


def test_a_login_without_any_right_is_told_what_to_run_when_roles_are_missing(
    new_database: NewDatabase, new_login: NewLogin, folder: Path, prefix: str
) -> None:
    login = new_login(new_database())
    with pytest.raises(MigrationRefused, match=rf"isn't installed.*{prefix}reproq_owner.*--roles-sql"):
        runner.ensure(login, role_prefix=prefix, folder=folder)


def test_a_superuser_migrates_a_server_that_has_never_seen_reproq(own_server: EmbeddedServer, folder: Path) -> None:
    assert len(migrate(own_server.admin_dsn, folder).applied) == 3


def test_roles_sql_makes_exactly_the_roles_that_the_code_names(own_server: EmbeddedServer, folder: Path) -> None:
    with connect(own_server.admin_dsn, name="t") as conn:
        files = load(folder)
        conn.execute(files.roles.text.encode())
        made = conn.execute("select rolname::text, rolcanlogin from pg_roles where oid >= 16384").fetchall()
        assert sorted(made) == sorted((name, False) for name in files.role_names)
        conn.execute(files.roles.text.encode())  # safe to repeat


def test_a_rival_that_changes_the_same_grants_meanwhile_is_waited_for_and_then_tried_again(
    new_database: NewDatabase, folder: Path, prefix: str
) -> None:
    """What PostgreSQL answers then is `tuple concurrently updated`, an internal error."""
    database = new_database()
    rival = database.connect()
    rival.execute("begin")
    rival.execute(f"grant connect on database {database.name} to postgres")
    waiting = "select 1 from pg_stat_activity where application_name = 'reproq migrate' and wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(migrate, database.dsn, folder, prefix)
        try:
            until(lambda: running.done() or bool(database.execute(f"{waiting} and datname = current_database()")))
        finally:
            rival.execute("commit")
        assert len(running.result(20).applied) == 3
