"""docs/processes.md: every command and statement runs as written, in its order; every table is that of the database."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import sends
from tests.conftest import Database
from tests.test_docs import FENCE, PAGES, first_cells, marked

ROOT = Path(__file__).parents[1]
PAGE = "docs/processes.md"


def psql(database: Database, statements: str, folder: Path) -> str:
    script = folder / "session.sql"
    script.write_text(statements)
    command = [database.server.installed.program("psql"), "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", str(script)]
    done = subprocess.run([*command, database.dsn], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{statements}\n{done.stderr}"
    return done.stdout


def shell(database: Database, commands: str, folder: Path) -> str:
    """In a folder of the user's, with both programs on its PATH."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("reproq", "pytest"):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {name} "$@"\n')
        (programs / name).chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("REPROQ_")}
    environ |= {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-e", "-c", commands], cwd=folder, env=environ | {"REPROQ_DATABASE_URL": database.dsn},
        capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def two_sends_that_ended_badly(database: Database) -> None:
    """The sends 123 and 124 of the page."""
    database.execute("select setval(pg_get_serial_sequence('comms.send_email_task', 'send_email_task_id'), 122)")
    for number, end in ((123, sends.fail), (124, sends.lose)):
        assert sends.send(database) == number
        sends.supervise(database, number)
        end(database, sends.begin(database, number))
        sends.supervise(database, number)


def test_the_page_runs_from_its_top_to_its_end(database: Database, tmp_path: Path) -> None:
    if not Path(database.server.installed.program("psql")).exists():
        pytest.skip("this PostgreSQL came without psql")
    printed = []
    try:
        for language, text in FENCE.findall(PAGES[PAGE]):
            if "123" in text and language == "sh":
                two_sends_that_ended_badly(database)
            if language in ("sql", "sh"):
                printed.append((psql if language == "sql" else shell)(database, text, tmp_path))
    finally:
        database.execute("drop owned by deployer; drop role deployer")
    out = "".join(printed)
    assert "6 passed" in out
    assert "cancelled\nerased\n" in out
    assert "124 resolved as sent" in out
    assert database.execute("select retry_of from comms.send_email_task where retry_of is not null") == [(123,)]


def test_the_table_of_facts_is_complete(database: Database) -> None:
    tables = "select 'comms.' || relname from pg_class where relkind = 'r' and relname like 'send\\_email\\_task%'"
    rows = first_cells(marked(PAGE, "facts of a send"))
    assert sorted(row[0] for row in rows) == sorted(name for (name,) in database.execute(tables))


def test_the_table_of_settings_is_that_of_the_database(database: Database) -> None:
    table = marked(PAGE, "settings of comms")
    columns = database.execute(
        "select attname::text, pg_get_expr(adbin, adrelid) from pg_attribute"
        " join pg_attrdef on adrelid = attrelid and adnum = attnum"
        " where attrelid = 'comms.setting'::regclass and attname <> 'only_row' order by attnum"
    )
    said = re.findall(r"^\| `(\w+)` \| `?([^|`]+?)`? \|", table, re.M)
    units = {"24:00:00": "24 hours", "00:00:10": "10 seconds", "01:00:00": "1 hour", "00:00:02": "2 seconds"}
    units |= {"00:05:00": "5 minutes"}
    stored = [(name, re.sub(r"'([^']*)'::.*", r"\1", default)) for name, default in columns]
    assert said == [(name, units.get(default, default)) for name, default in stored]


def test_the_table_for_authors_is_what_they_may_execute(database: Database) -> None:
    granted = database.execute(
        "select n.nspname || '.' || p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace,"
        " aclexplode(p.proacl) a where a.grantee = 'reproq_process_author'::regrole"
    )
    named = {name for row in first_cells(marked(PAGE, "for process authors")) for name in row}
    assert named == {name for (name,) in granted} - {"internal.schema_state"}  # for the runner of migrations alone
