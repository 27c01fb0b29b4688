"""Reproq's own migrations, by the runner and by psql, on every server."""

from collections.abc import Callable
from typing import Any

from reproq.db import migrate as runner
from reproq.db.connect import connect
from reproq.db.migration.files import load

OBJECTS = """
    select 'relation', c.oid::regclass::text, c.relkind::text, coalesce(c.relacl::text, '') from pg_class c
    join pg_namespace n on n.oid = c.relnamespace where n.nspname in ('queues', 'internal', 'comms')
    union all
    select 'function', p.oid::regprocedure::text, md5(pg_get_functiondef(p.oid)), coalesce(p.proacl::text, '')
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in ('queues', 'internal', 'comms')
    order by 1, 2"""


def test_functions_change_only_with_a_new_version() -> None:
    """The number in version.toml is raised by hand, together with this hash."""
    files = load()
    assert files.declared_sha256 == files.text_sha256, (
        "a function file or grants.sql has changed: if its version was ever released, raise schema_version (and"
        f" compatible_from, if older code can't call the new functions); then set functions_sha256 = "
        f'"{files.text_sha256}" in migrations/version.toml'
    )


def test_psql_makes_the_same_schema_as_the_runner(new_database: Callable[..., Any], psql: Callable[..., Any]) -> None:
    by_runner, by_script = new_database(), new_database()
    runner.migrate(by_runner.dsn, say=lambda _: None)
    done = psql(by_script.dsn, runner.sql())
    assert (done.returncode, done.stderr) == (0, "")
    assert by_script.execute(OBJECTS) == by_runner.execute(OBJECTS)
    with connect(by_script.dsn, name="test") as conn:
        assert runner.state(conn).current


def test_a_worker_may_see_the_version_and_an_app_may_not(database: Any) -> None:
    runner.ensure(database.worker_dsn, no_migrate=True)
    with connect(database.app_dsn, name="test") as conn:
        assert not runner.state(conn).readable


def test_every_object_belongs_to_the_owner_role(database: Any) -> None:
    owners = database.execute(
        "select distinct pg_get_userbyid(c.relowner)::text from pg_class c where c.relnamespace::regnamespace::text"
        " in ('queues', 'internal', 'comms') union select distinct pg_get_userbyid(p.proowner)::text from pg_proc p"
        " where p.pronamespace::regnamespace::text in ('queues', 'internal', 'comms')"
    )
    assert owners == [("reproq_owner",)]
