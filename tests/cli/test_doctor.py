"""`reproq doctor`, started as a program against a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from reproq.db.security import RULES


def doctor(dsn: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reproq", "doctor", "--database-url", dsn, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"COLUMNS": "160", "PATH": "/bin"})


def test_a_fresh_installation_passes_and_the_table_has_a_line_for_every_rule(database: Any) -> None:
    done = doctor(database.dsn, "--security")
    assert (done.returncode, done.stderr) == (0, "")
    words = {line.split()[0]: line.split()[-1] for line in done.stdout.splitlines() if line and line[0].isalpha()}
    assert words.keys() >= {rule.name for rule in RULES}
    assert done.stdout.splitlines()[0].split() == ["rule", "how", "checked", "result"]


def test_a_finding_is_exit_status_1_and_comes_with_its_fix(database: Any) -> None:
    database.execute("grant execute on function queues.replay to public")
    done = doctor(database.dsn, "--security")
    assert done.returncode == 1
    assert "everybody may call queues.replay(bigint,integer)" in done.stdout
    assert "revoke execute on routine queues.replay(bigint,integer) from public;" in done.stdout


def test_json_is_one_object_a_rule(database: Any) -> None:
    database.execute("grant execute on function queues.replay to public")
    done = doctor(database.dsn, "--security", "--json")
    rows = {row["rule"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert rows.keys() == {rule.name for rule in RULES}
    assert rows["public.functions"]["result"] == "found"
    assert rows["public.functions"]["findings"][0]["fix"].startswith("revoke")
    assert (rows["public.types"]["result"], rows["parameters.shared"]["result"]) == ("ok", "told")


def test_a_lesser_login_is_told_what_it_cant_see(database: Any) -> None:
    done = doctor(database.app_dsn, "--security")
    assert done.returncode == 3
    assert "schemas.allowed: not seen by this login" in done.stdout
    assert "ask as an administrator or a member of the owner" in done.stdout
    database.execute("grant execute on function queues.replay to public")
    assert doctor(database.app_dsn, "--security").returncode == 1


def test_without_security_it_looks_at_the_basics(database: Any, new_database: Callable[..., Any]) -> None:
    assert doctor(database.worker_dsn).returncode == 0
    empty = doctor(new_database().dsn)
    assert empty.returncode == 1
    assert "Reproq's schema isn't installed in this database" in empty.stdout
    assert "reproq migrate" in empty.stdout


@pytest.mark.parametrize("dsn", ["postgresql://nobody:wrong@127.0.0.1:1/none"])
def test_a_server_that_isnt_there_is_one_line(dsn: str) -> None:
    done = doctor(dsn, "--security")
    assert done.returncode == 2
    assert done.stderr.startswith("reproq: error: database: ")
    assert (done.stderr.count("\n"), "wrong" in done.stderr) == (1, False)


def test_the_statuses_are_in_its_help() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "reproq", "doctor", "--help"], capture_output=True, text=True, check=True
    )
    assert all(f"{status} " in told.stdout.partition("Exit status:")[2] for status in range(4))


@pytest.mark.parametrize("command", [["doctor"], ["enqueue", "t"], ["migrate"]])
@pytest.mark.parametrize(
    "dsn", ["postgresql://u:s3cr3tpw@h:port/x", "host=h password='s3cr3tpw", "postgresql://u:s3cr3tpw%zz@h/x"]
)
def test_a_malformed_address_is_never_repeated(command: list[str], dsn: str) -> None:
    arguments = [sys.executable, "-m", "reproq", *command, "--database-url", dsn]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env={"PATH": "/bin"})
    assert done.returncode == 2
    assert "s3cr3tpw" not in done.stdout + done.stderr
