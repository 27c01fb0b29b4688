from __future__ import annotations

import json
from pathlib import Path

import pytest

from reproq.cli.scaffold import write
from reproq.db import process_files
from tests.cli import sends
from tests.cli.conftest import Call
from tests.conftest import Database

pytestmark = pytest.mark.every_server


def test_the_timeline_tells_facts_attempts_errors_and_the_next_check(call: Call, database: Database) -> None:
    number = sends.send(database)
    sends.supervise(database, number)
    sends.fail(database, sends.begin(database, number), permanent=False)
    status, out, err = call("process", "show", "comms.send_email", str(number), role="admin")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"comms.send_email {number}: open"
    told = [line.split()[4:6] for line in lines if line.startswith("  20") and " 1  " in line]
    assert told == [["1", "scheduled"], ["1", "started"], ["1", "failed"], ["1", "note"]]
    assert "provider_refused by host/1 " in " ".join(out.split())
    assert "it answered" in out
    assert "     | refused" in lines
    assert lines[lines.index("errors") + 1].endswith("email: provider_refused 451")
    assert "next check: its supervisor runs now" in out  # claimed above, beside the attempt


def test_the_next_check_is_the_supervisors_waiting_row(call: Call, database: Database) -> None:
    database.execute("update comms.setting set check_base = '90 seconds'")
    number = sends.send(database)
    sends.claim(database)
    sends.supervise(database, number)
    ((waiting,),) = database.execute(
        "select id from queues.task_runs where status = 'PENDING' and task_type <> 'email'"
    )
    out = call("process", "show", "comms.send_email", str(number), role="admin")[1]
    assert "next check: its supervisor runs now" in out
    database.execute("update queues.task_runs set status = 'CANCELLED', leased_until = null, completed_at = now()")
    out = call("process", "show", "comms.send_email", str(number), role="admin")[1]
    assert "next check: its supervisor is lost; a worker brings it back within a minute" in out
    database.execute("update queues.task_runs set status = 'PENDING', completed_at = null where id = %s", waiting)
    out = call("process", "show", "comms.send_email", str(number), role="admin")[1]
    assert "next check: in 8" in out
    assert f"task {waiting})" in out


def test_an_ended_process_says_how_and_why(call: Call, database: Database) -> None:
    number = sends.send(database)
    sends.supervise(database, number)
    sends.fail(database, sends.begin(database, number), "550 no such\x1b[2J user")
    sends.supervise(database, number)
    status, out, _err = call("process", "show", "comms.send_email", str(number), role="admin")
    assert out.startswith(f"comms.send_email {number}: ended, failed (provider_refused)\n")
    assert "note 550 no such?[2J user" in out
    assert out.endswith("next check: none: it has ended\n")
    shown = json.loads(call("process", "show", "comms.send_email", str(number), "--json", role="admin")[1])
    assert (status, shown["ended"]["outcome"]) == (0, "failed")
    assert [fact["fact"] for fact in shown["facts"]].count("failed") == 1


def test_another_processs_rows_are_not_shown(call: Call, database: Database) -> None:
    first, second = sends.send(database), sends.send(database)
    sends.supervise(database, first)
    shown = json.loads(call("process", "show", "comms.send_email", str(second), "--json", role="admin")[1])
    assert (shown["facts"], shown["tasks"], len(shown["supervisors"])) == ([], [], 1)


def test_a_process_of_ones_own_is_shown_by_its_names(call: Call, database: Database, tmp_path: Path) -> None:
    write("parcel_notice", tmp_path / "own")
    process_files.apply(database.dsn, tmp_path / "own", say=lambda _line: None)
    database.execute("select parcel_notice.kickoff_parcel_notice_task(7, 'ann@example.org')")
    database.execute("""select parcel_notice.parcel_notice_supervisor('{"parcel_notice_task_id": 1}')""")
    for name in ("parcel_notice.parcel_notice", "parcel_notice"):
        status, out, _err = call("process", "show", name, "1", role="admin")
        assert status == 0
        assert "subject_id 7" in out
        assert " 1        scheduled" in out
        assert "email task 2: PENDING" in out


def test_an_unknown_process_is_one_line_that_names_those_there_are(call: Call, database: Database) -> None:
    for name in ("comms.send_fax", "send email", "comms.send_email_task_scheduled", "%s"):
        status, out, err = call("process", "show", name, "1", role="admin")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "there are comms.send_email, comms.send_sms" in err
    status, out, err = call("process", "show", "comms.send_email", "4711", role="admin")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "no comms.send_email 4711" in err


def test_a_login_that_may_not_see_is_told_which_may(call: Call, database: Database) -> None:
    number = sends.send(database)
    for arguments in (
        ["show", "comms.send_email", str(number)],
        ["list"],
        ["dry-run", "comms.send_email", "--id", str(number)],
        ["retry", "comms.send_email", str(number)],
    ):
        status, out, err = call("process", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "give --database-url of the owner or an administrator" in err
