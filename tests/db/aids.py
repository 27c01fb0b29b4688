"""Small migrations folders for the runner's tests, which must not depend on what Reproq's own say, and waiting."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from reproq.db.migration.files import default_folder

TABLE = "create table queues.thing (id bigint generated always as identity primary key, note text);"
COUNT = """create or replace function queues.count_things() returns bigint language sql security definer
set search_path = pg_catalog, pg_temp as $$ select count(*) from queues.thing $$;"""
GRANTS = """revoke all on all functions in schema queues from public;
grant usage on schema queues to worker_service_user;
grant execute on function queues.count_things() to worker_service_user;"""


def small(path: Path, version: int = 1, compatible_from: int = 1) -> Path:
    """Write a folder with one table, one function and its grants, beside the real roles.sql."""
    (path / "functions/queues").mkdir(parents=True)
    shutil.copy(default_folder() / "roles.sql", path / "roles.sql")
    (path / "0001_initial.sql").write_text(TABLE)
    (path / "functions/queues/count_things.sql").write_text(COUNT)
    (path / "grants.sql").write_text(GRANTS)
    set_version(path, version, compatible_from)
    return path


def set_version(path: Path, version: int, compatible_from: int = 1) -> None:
    """Write version.toml."""
    text = f'schema_version = {version}\ncompatible_from = {compatible_from}\nfunctions_sha256 = ""\n'
    (path / "version.toml").write_text(text)


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
