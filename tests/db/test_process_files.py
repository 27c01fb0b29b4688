"""`reproq migrate --dir`: the user's own files, once each, as the login."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from reproq.cli.scaffold import write
from reproq.db import migrate, process_files
from reproq.db.errors import MigrationRefused
from tests.conftest import Database

from . import aids

NewLogin = Callable[..., str]


def quietly(_line: str) -> None:
    pass


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with two files."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "0001_first.sql").write_text("create table public.first (id int); insert into public.first values (1);")
    (folder / "0002_second.sql").write_text("insert into public.first values (2); -- 100% plain SQL: %s")
    (folder / "notes.sql").write_text("no SQL")
    return folder


def numbers(database: Database) -> list[int]:
    return [number for (number,) in database.execute("select id from public.first order by 1")]


def test_files_are_applied_once_each_in_order(database: Database, own: Path) -> None:
    assert process_files.apply(database.dsn, own, say=quietly) == ["0001_first.sql", "0002_second.sql"]
    assert process_files.apply(database.dsn, own, say=quietly) == []
    (own / "0003_third.sql").write_text("insert into public.first values (3)")
    assert process_files.apply(database.dsn, own, say=quietly) == ["0003_third.sql"]
    assert numbers(database) == [1, 2, 3]
    ledger = database.execute("select source, name, applied_by from internal.process_file order by name")
    assert ledger[0] == ("own", "0001_first.sql", "postgres")


def test_a_file_that_was_changed_after_it_was_applied_is_refused(database: Database, own: Path) -> None:
    process_files.apply(database.dsn, own, say=quietly)
    (own / "0001_first.sql").write_text("create table public.other (id int)")
    with pytest.raises(
        MigrationRefused, match=r"0001_first\.sql was changed .* called own: Put its text back, .* --source"
    ):
        process_files.apply(database.dsn, own, say=quietly)
    assert database.execute("select to_regclass('public.other')") == [(None,)]


def test_the_same_name_from_another_source_is_another_file(database: Database, own: Path) -> None:
    process_files.apply(database.dsn, own, say=quietly)
    (own / "0001_first.sql").write_text("insert into public.first values (7)")
    assert len(process_files.apply(database.dsn, own, source="shop/own", say=quietly)) == 2
    assert numbers(database) == [1, 2, 2, 7]


def test_a_file_that_fails_leaves_nothing_and_those_before_it_stay(database: Database, own: Path) -> None:
    (own / "0002_second.sql").write_text("insert into public.first values (2);\nselect 1 from nowhere;")
    with pytest.raises(psycopg.errors.UndefinedTable) as failed:
        process_files.apply(database.dsn, own, say=quietly)
    assert failed.value.__notes__ == ["in 0002_second.sql, line 2; nothing of this file was applied"]
    assert numbers(database) == [1]
    (own / "0002_second.sql").write_text("insert into public.first values (2)")
    assert process_files.apply(database.dsn, own, say=quietly) == ["0002_second.sql"]


@pytest.mark.parametrize("ending", ["commit;", "begin; commit;", "rollback;", "savepoint one;"])
def test_a_file_that_ends_its_transaction_is_named_and_leaves_nothing(
    database: Database, own: Path, ending: str
) -> None:
    (own / "0001_first.sql").write_text(f"create table public.first (id int); {ending} insert into first values (1);")
    with pytest.raises(MigrationRefused, match="take begin, commit, rollback and savepoint out of it"):
        process_files.apply(database.dsn, own, say=quietly)
    assert database.execute("select to_regclass('public.first')") == [(None,)]


def test_two_at_once_apply_each_file_once(database: Database, own: Path) -> None:
    (own / "0001_first.sql").write_text("create table public.first (id int); select pg_advisory_xact_lock(7);")
    with database.connect() as holder:
        holder.execute("select pg_advisory_lock(7)")
        done: list[list[str]] = []
        threads = [
            threading.Thread(target=lambda: done.append(process_files.apply(database.dsn, own, say=quietly)))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        aids.until(lambda: database.execute(waits) == [(2,)])  # one at the gate, the other at the first one's note
        holder.execute("select pg_advisory_unlock(7)")
        for thread in threads:
            thread.join()
    assert sorted(done) == [[], ["0001_first.sql", "0002_second.sql"]] or sorted(done) == [
        ["0001_first.sql"],
        ["0002_second.sql"],
    ]
    assert numbers(database) == [2]


def test_a_lock_that_others_hold_is_waited_for(database: Database, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_files, "DDL_LOCK_S", 0.1)
    process_files.apply(database.dsn, own, say=quietly)
    (own / "0003_third.sql").write_text("alter table public.first add column note text")
    holder = database.connect()
    holder.execute("begin; lock table public.first in access share mode")
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if line.endswith("trying again"):
            holder.execute("commit")

    assert process_files.apply(database.dsn, own, say=say) == ["0003_third.sql"]
    assert "migrate: another transaction holds a lock; trying again" in said


def test_a_process_author_needs_no_more_than_that_role_and_create(
    database: Database, new_login: NewLogin, tmp_path: Path
) -> None:
    write("visit", tmp_path / "own")
    dsn = new_login(database)
    login = psycopg.conninfo.conninfo_to_dict(dsn)["user"]
    with pytest.raises(MigrationRefused, match=f"GRANT reproq_process_author TO {login}"):
        process_files.apply(dsn, tmp_path / "own", say=quietly)
    database.execute(f"grant reproq_process_author to {login}; grant create on database {database.name} to {login}")
    assert process_files.apply(dsn, tmp_path / "own", say=quietly) == ["0001_visit.sql"]
    owner = "select pg_get_userbyid(nspowner)::text from pg_namespace where nspname = 'visit'"
    assert database.execute(owner) == [(login,)]
    # What the author owns runs for others with the author's rights, and these suffice.
    app, worker = database.connect("app"), database.connect("worker")
    assert app.execute("select visit.kickoff_visit_task(1, 'ann@example.org')").fetchone() == (1,)
    run = "select internal.run_function('visit.visit_supervisor', '{\"visit_task_id\": 1}')"
    row = worker.execute(run).fetchone()
    assert row is not None
    assert row[0]["success"] is True  # type: ignore[index]


def test_what_an_author_owns_may_start_mail_and_wait_for_it(database: Database, new_login: NewLogin) -> None:
    """The example's supervision tree, installed by a login that is no superuser."""
    dsn = new_login(database)
    login = psycopg.conninfo.conninfo_to_dict(dsn)["user"]
    database.execute(f"grant reproq_process_author to {login}; grant create on database {database.name} to {login}")
    process_files.apply(dsn, Path(__file__).parents[2] / "examples/processes", say=quietly)
    app, worker = database.connect("app"), database.connect("worker")
    kickoff = "select newsletter.kickoff_edition_task('May', array['a@example.org', 'b@example.org'], now() + '1 hour')"
    assert app.execute(kickoff).fetchone() == app.execute(kickoff).fetchone() == (1,)
    supervise = "select internal.run_function('newsletter.edition_supervisor', '{\"edition_task_id\": 1}')"
    for _ in range(2):
        worker.execute(supervise)
    assert database.execute("select count(*) from comms.send_email_task") == [(2,)]
    assert database.execute("select count(*) from newsletter.edition_task_ended") == [(0,)]
    database.execute("insert into comms.send_email_task_ended (send_email_task_id, outcome) values (1, 'failed')")
    worker.execute(supervise)
    assert database.execute("select count(*) from newsletter.edition_task_ended") == [(0,)]
    database.execute("insert into comms.send_email_task_ended (send_email_task_id, outcome) values (2, 'failed')")
    worker.execute(supervise)
    assert database.execute("select outcome, reason from newsletter.edition_task_ended") == [
        ("failed", "0 of 2 were sent")
    ]
    assert database.execute("select count(*) from internal.open_process where payload ? 'edition_task_id'") == [(0,)]


def test_a_role_prefix_of_the_installation_is_put_before_the_roles_of_a_file(
    new_database: Callable[..., Database], prefix: str, tmp_path: Path
) -> None:
    database = new_database()
    migrate.migrate(database.dsn, role_prefix=prefix, say=quietly)
    write("visit", tmp_path / "own")
    process_files.apply(database.dsn, tmp_path / "own", say=quietly)
    granted = "select has_function_privilege(%s, 'visit.visit_supervisor(jsonb)', 'execute')"
    assert database.execute(granted, f"{prefix}worker_service_user") == [(True,)]


def test_nobody_else_may_execute_what_a_file_of_ours_makes(database: Database, tmp_path: Path) -> None:
    write("visit", tmp_path / "own")
    process_files.apply(database.dsn, tmp_path / "own", say=quietly)
    database.execute("create role nobody_special")
    may = (
        "select proname from pg_proc where pronamespace = 'visit'::regnamespace"
        " and has_function_privilege(%s, oid, 'execute')"
    )
    try:
        assert database.execute(may, "nobody_special") == []
        assert database.execute(may, "reproq_app") == [("kickoff_visit_task",)]
    finally:
        database.execute("drop role nobody_special")


def test_without_reproqs_own_schema_the_next_step_is_named(new_database: Callable[..., Database], own: Path) -> None:
    with pytest.raises(MigrationRefused, match="run `reproq migrate` first"):
        process_files.apply(new_database().dsn, own, say=quietly)


def test_a_folder_without_such_files_is_refused(database: Database, tmp_path: Path) -> None:
    with pytest.raises(MigrationRefused, match=r"holds no file like 0001_name\.sql"):
        process_files.apply(database.dsn, tmp_path, say=quietly)
    with pytest.raises(MigrationRefused, match="can't be read"):
        process_files.apply(database.dsn, tmp_path / "nowhere", say=quietly)
