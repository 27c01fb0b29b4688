"""The migration runner on a real server: what is applied, when, and what is refused."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from reproq.db import migrate as runner
from reproq.db.connect import connect
from reproq.db.embedded import EmbeddedServer
from reproq.db.errors import MigrationRefused
from reproq.db.migration import roles
from reproq.db.migration.files import load

from . import aids

NewDatabase = Callable[..., Any]


def migrate(dsn: str, folder: Path, prefix: str = "", said: list[str] | None = None) -> runner.Report:
    return runner.migrate(dsn, role_prefix=prefix, folder=folder, say=(said if said is not None else []).append)


def owners(database: Any) -> set[str]:
    rows = database.execute(
        "select pg_get_userbyid(relowner)::text from pg_class where relnamespace::regnamespace::text"
        " in ('queues', 'internal') union select pg_get_userbyid(proowner)::text from pg_proc"
        " where pronamespace::regnamespace::text in ('queues', 'internal')"
        " union select pg_get_userbyid(nspowner)::text from pg_namespace where nspname in ('queues', 'internal')"
    )
    return {row[0] for row in rows}


def test_a_first_run_applies_everything_as_the_owner_role(new_database: NewDatabase, folder: Path) -> None:
    database = new_database()
    report = migrate(database.dsn, folder)
    assert report == runner.Report(None, 1, ("0001_initial.sql", "queues.count_things", "grants.sql"))
    assert owners(database) == {"reproq_owner"}
    assert database.execute("select schema_version, compatible_from from internal.schema_version") == [(1, 1)]


def test_a_second_run_applies_nothing(new_database: NewDatabase, folder: Path) -> None:
    database = new_database()
    migrate(database.dsn, folder)
    before = database.execute("select xmin::text from internal.schema_version")
    assert migrate(database.dsn, folder) == runner.Report(1, 1)
    assert database.execute("select xmin::text from internal.schema_version") == before


def test_a_worker_login_without_any_table_right_can_see_that_the_schema_is_current(
    new_database: NewDatabase, new_login: Callable[..., str], folder: Path
) -> None:
    database = new_database()
    migrate(database.dsn, folder)
    worker = new_login(database, "in role worker_service_user")
    runner.ensure(worker, folder=folder)
    with connect(worker, name="t") as conn:
        assert runner.state(conn, folder=folder).current
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select * from internal.schema_version")


def test_a_changed_function_is_applied_again_and_so_are_the_grants(new_database: NewDatabase, folder: Path) -> None:
    database = new_database()
    migrate(database.dsn, folder)
    file = folder / "functions/queues/count_things.sql"
    file.write_text(file.read_text().replace("count(*)", "count(*) + 100"))
    with connect(database.dsn, name="t") as conn:
        assert not runner.state(conn, folder=folder).current
    assert migrate(database.dsn, folder).applied == ("queues.count_things", "grants.sql")
    assert database.execute("select queues.count_things()") == [(100,)]


def test_a_new_numbered_file_is_applied_once_and_brings_every_function_along(
    new_database: NewDatabase, folder: Path
) -> None:
    database = new_database()
    migrate(database.dsn, folder)
    database.execute("drop function queues.count_things()")
    (folder / "0002_more.sql").write_text("alter table queues.thing add column more int default 7;")
    aids.set_version(folder, 2)
    report = migrate(database.dsn, folder)
    assert report == runner.Report(1, 2, ("0002_more.sql", "queues.count_things", "grants.sql"))
    assert migrate(database.dsn, folder) == runner.Report(2, 2)
    assert database.execute("select queues.count_things()") == [(0,)]


def test_a_numbered_file_that_changed_after_it_was_applied_is_refused(new_database: NewDatabase, folder: Path) -> None:
    database = new_database()
    migrate(database.dsn, folder)
    (folder / "0001_initial.sql").write_text(aids.TABLE + " -- edited")
    aids.set_version(folder, 2)
    with pytest.raises(MigrationRefused, match=r"0001_initial\.sql was changed after it had been applied"):
        migrate(database.dsn, folder)
    assert database.execute("select schema_version from internal.schema_version") == [(1,)]


def test_a_function_file_waits_for_the_one_it_names(new_database: NewDatabase, folder: Path) -> None:
    (folder / "functions/queues/a_user.sql").write_text(
        "-- after: queues.count_things\n"
        "create function queues.a_user() returns bigint language sql begin atomic select queues.count_things(); end;"
    )
    assert migrate(new_database().dsn, folder).applied[1:3] == ("queues.count_things", "queues.a_user")


def test_function_files_that_wait_for_each_other_or_for_nobody_are_refused(folder: Path) -> None:
    one, two = (folder / f"functions/queues/{name}.sql" for name in ("one", "two"))
    one.write_text("-- after: queues.two\nselect 1;")
    two.write_text("-- after: queues.one\nselect 1;")
    with pytest.raises(MigrationRefused, match=r"wait for each other.*queues\.one, queues\.two"):
        runner.sql(folder=folder)
    two.write_text("-- after: queues.three\nselect 1;")
    with pytest.raises(MigrationRefused, match=r"queues\.two is to come after queues\.three, which is missing"):
        runner.sql(folder=folder)


def test_an_error_names_the_file_and_the_line_and_leaves_nothing_behind(
    new_database: NewDatabase, folder: Path
) -> None:
    database = new_database()
    (folder / "0002_wrong.sql").write_text("select 1;\nselect 2;\ncreate tabel queues.nothing ();\n")
    with pytest.raises(psycopg.errors.SyntaxError) as caught:
        migrate(database.dsn, folder)
    assert caught.value.__notes__ == ["in 0002_wrong.sql, line 3"]
    assert database.execute("select to_regnamespace('queues')::text") == [(None,)]


def test_of_ten_workers_that_start_at_once_one_migrates_and_all_go_on(new_database: NewDatabase, folder: Path) -> None:
    database = new_database()
    together = threading.Barrier(10)

    def start() -> runner.Report:
        together.wait()
        return migrate(database.dsn, folder)

    with ThreadPoolExecutor(10) as pool:
        reports = [future.result() for future in [pool.submit(start) for _ in range(10)]]
    assert sorted(len(report.applied) for report in reports) == [0] * 9 + [3]
    assert {report.after for report in reports} == {1}


def test_ten_databases_of_one_server_are_migrated_at_once_although_no_role_exists_yet(
    new_database: NewDatabase, folder: Path, prefix: str
) -> None:
    databases = [new_database() for _ in range(10)]
    together = threading.Barrier(10)

    def start(database: Any) -> runner.Report:
        together.wait()
        return migrate(database.dsn, folder, prefix)

    with ThreadPoolExecutor(10) as pool:
        reports = list(pool.map(start, databases))
    assert [len(report.applied) for report in reports] == [3] * 10
    assert all(owners(database) == {f"{prefix}reproq_owner"} for database in databases)


def test_code_that_the_newer_schema_still_serves_runs_and_touches_nothing(
    new_database: NewDatabase, folder: Path, tmp_path: Path
) -> None:
    database = new_database()
    newer = aids.small(tmp_path / "newer", version=5, compatible_from=1)
    (newer / "functions/queues/new_one.sql").write_text("create function queues.new_one() returns int return 1;")
    migrate(database.dsn, newer)
    before = database.execute("select xmin::text from internal.function_file order by name")
    runner.ensure(database.dsn, folder=folder)
    assert migrate(database.dsn, folder) == runner.Report(5, 5)
    assert database.execute("select xmin::text from internal.function_file order by name") == before


def test_code_older_than_the_schema_serves_is_refused_with_both_versions(
    new_database: NewDatabase, folder: Path, tmp_path: Path
) -> None:
    database = new_database()
    migrate(database.dsn, aids.small(tmp_path / "newer", version=5, compatible_from=4))
    for call in (runner.ensure, runner.migrate):
        with pytest.raises(MigrationRefused, match="version 5 and serves code of version 4 and up, but this code is"):
            call(database.dsn, folder=folder)


def test_a_worker_told_not_to_migrate_goes_on_only_with_a_current_schema(
    new_database: NewDatabase, folder: Path
) -> None:
    database = new_database()
    with pytest.raises(MigrationRefused, match=r"isn't installed, and --no-migrate forbids.*run `reproq migrate`"):
        runner.ensure(database.dsn, no_migrate=True, folder=folder)
    migrate(database.dsn, folder)
    runner.ensure(database.dsn, no_migrate=True, folder=folder)
    aids.set_version(folder, 2)
    with pytest.raises(MigrationRefused, match="the schema is version 1, this code needs 2"):
        runner.ensure(database.dsn, no_migrate=True, folder=folder)


def test_a_migration_gives_way_to_a_long_transaction_and_comes_back(
    new_database: NewDatabase, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "DDL_LOCK_S", 0.05)
    database = new_database()
    migrate(database.dsn, folder)
    (folder / "0002_more.sql").write_text("alter table queues.thing add column more int;")
    aids.set_version(folder, 2)
    holder = database.connect()
    holder.execute("begin")
    holder.execute("select * from queues.thing")
    said: list[str] = []
    gave_way = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        if "trying again" in line:
            gave_way.set()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.migrate, database.dsn, folder=folder, say=say)
        assert gave_way.wait(20), said
        database.execute("select * from queues.thing")  # nobody is queued behind the migration
        holder.execute("commit")
        assert running.result(20).after == 2


def test_a_migration_that_never_gets_its_lock_says_so(
    new_database: NewDatabase, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "DDL_LOCK_S", 0.05)
    monkeypatch.setattr(runner, "PATIENCE_S", 0)
    database = new_database()
    migrate(database.dsn, folder)
    (folder / "0002_more.sql").write_text("alter table queues.thing add column more int;")
    aids.set_version(folder, 2)
    holder = database.connect()
    holder.execute("begin")
    holder.execute("select * from queues.thing")
    with pytest.raises(MigrationRefused, match="other transactions kept Reproq's tables locked"):
        migrate(database.dsn, folder)


def test_time_limits_and_isolation_set_on_the_login_dont_disturb_a_migration(
    new_database: NewDatabase, folder: Path
) -> None:
    database = new_database()
    database.execute(f"alter database {database.name} set lock_timeout = '1ms'")
    database.execute(f"alter database {database.name} set statement_timeout = '100ms'")
    database.execute(f"alter database {database.name} set default_transaction_isolation = 'serializable'")
    database.execute(f"alter database {database.name} set default_transaction_read_only = on")
    (folder / "0002_slow.sql").write_text("select pg_sleep(0.3);")
    assert migrate(database.dsn, folder).after == 1


def test_schemas_of_our_names_that_hold_somebody_elses_tables_are_refused(
    new_database: NewDatabase, folder: Path
) -> None:
    database = new_database()
    database.execute("create schema internal")
    database.execute("create table internal.theirs ()")
    with pytest.raises(MigrationRefused, match="schema internal exists already and isn't Reproq's"):
        migrate(database.dsn, folder)
    assert database.execute("select to_regnamespace('queues')::text") == [(None,)]


def test_a_prefix_makes_an_installation_with_its_own_roles_that_later_runs_recognise(
    new_database: NewDatabase, folder: Path, prefix: str
) -> None:
    database = new_database()
    migrate(database.dsn, folder, prefix)
    assert owners(database) == {f"{prefix}reproq_owner"}
    assert migrate(database.dsn, folder) == runner.Report(1, 1)
    may = f"select has_function_privilege('{prefix}worker_service_user', 'queues.count_things()', 'EXECUTE')"
    assert database.execute(may) == [(True,)]
    with pytest.raises(MigrationRefused, match=f"installed with role prefix '{prefix}', not 'other_'"):
        migrate(database.dsn, folder, "other_")


def test_a_database_of_another_encoding_is_refused_with_what_to_do(new_database: NewDatabase, folder: Path) -> None:
    dsn = new_database().dsn
    latin = f"{conninfo_to_dict(dsn)['dbname']}_latin"
    with connect(dsn, name="test") as connection:
        connection.execute(f"create database {latin} template template0 encoding 'LATIN1' locale 'C'")
        try:
            with pytest.raises(MigrationRefused, match=r"the encoding of this database is LATIN1.*needs UTF8"):
                migrate(make_conninfo(dsn, dbname=latin), folder)
        finally:
            connection.execute(f"drop database {latin} with (force)")


@pytest.mark.parametrize("prefix", ["Acme_", "a-", "1a", "a'; drop", "x" * 40])
def test_a_prefix_that_is_no_plain_name_is_refused(prefix: str, folder: Path) -> None:
    with pytest.raises(MigrationRefused, match="role prefix"):
        runner.sql(prefix, folder=folder)


def test_a_folder_that_cant_be_read_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(MigrationRefused, match=f"the migrations in {tmp_path} can't be read"):
        runner.roles_sql(folder=tmp_path)


def test_every_statement_runs_behind_a_pooler_that_changes_the_session_each_transaction(
    new_database: NewDatabase, server: EmbeddedServer, folder: Path
) -> None:
    """No session lock is left, no SET outlives its transaction, nothing is prepared."""
    database = new_database()
    with connect(database.dsn, name="t") as conn:
        files = load(folder)
        runner._patiently(conn, files, roles.settle(conn, files, print), print)
        settings = "select current_user::text, current_setting('lock_timeout'), current_setting('search_path')"
        assert conn.execute(settings).fetchone() == ("postgres", "0", '"$user", public')
        assert conn.execute("select count(*) from pg_locks where locktype = 'advisory'").fetchone() == (0,)
        assert conn.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)
