"""`reproq doctor`, started as a program against a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reproq.db.doctor.health import HEALTH
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


def test_without_security_it_looks_at_the_health(database: Any, new_database: Callable[..., Any]) -> None:
    rows = {row["rule"]: row for row in map(json.loads, doctor(database.dsn, "--json").stdout.splitlines())}
    assert rows.keys() == {rule.name for rule in HEALTH} | {"settings.worker"}
    assert {name for name, row in rows.items() if row["result"] == "found"} == {"server.durable"}  # the suite's server
    assert rows["server.durable"]["findings"][0]["severity"] == "error"
    empty = doctor(new_database().dsn)
    assert empty.returncode == 1
    assert "Reproq's schema isn't installed in this database" in empty.stdout
    assert "reproq migrate" in empty.stdout


@pytest.mark.parametrize("dsn", ["postgresql://nobody:wrong@127.0.0.1:1/none"])
def test_a_server_that_isnt_there_is_one_line_with_the_way_out(dsn: str) -> None:
    done = doctor(dsn, "--security")
    assert done.returncode == 2
    assert done.stderr.startswith("reproq: error: database: ")
    assert (done.stderr.count("\n"), "wrong" in done.stderr) == (1, False)
    assert "start PostgreSQL, or mind host and port" in done.stderr
    told = json.loads(doctor(dsn, "--json").stdout)
    assert (told["rule"], told["result"]) == ("database.reachable", "found")
    assert told["findings"][0]["fix"].startswith("start PostgreSQL")


def test_a_settings_file_that_a_worker_would_refuse_is_a_finding(database: Any, tmp_path: Path) -> None:
    file = tmp_path / "reproq.toml"
    file.write_text('lease = "9s"\nheartbeat = "4s"\n')
    done = doctor(database.dsn, "--config", str(file))
    assert done.returncode == 1
    assert "settings.worker: error: heartbeat 4s is too slow for lease 9s" in done.stdout
    file.write_text("leese = 3\n")
    assert "unknown key 'leese'" in doctor(database.dsn, "--config", str(file)).stdout


def test_findings_have_a_severity_and_are_counted(database: Any) -> None:
    done = doctor(database.dsn)
    assert "server.durable: error: fsync is off" in done.stdout
    assert "login.might: note: the login postgres is a superuser" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stdout.splitlines()[-1].endswith("errors, 1 note")


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
