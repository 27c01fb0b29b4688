"""Small migrations folders, which must not depend on what Reproq's own say; servers, other processes, waiting."""

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from reproq.db.connect import connect
from reproq.db.embedded import EmbeddedServer
from reproq.db.migration.files import default_folder

Start = Callable[..., "subprocess.Popen[str]"]

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


def alive(pid: int) -> bool:
    """Say whether a process runs; one that nobody has waited for yet doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def line(process: "subprocess.Popen[str]") -> list[str]:
    """Read the words of the next line that a program printed."""
    assert process.stdout and process.stderr
    words = process.stdout.readline().split()
    assert words, process.stderr.read()
    return words


def ask(server: EmbeddedServer, statement: str) -> object:
    """Return the one value that a statement answers."""
    with connect(server.admin_dsn, name="test") as conn:
        row = conn.execute(statement.encode()).fetchone()
        return row and row[0]
