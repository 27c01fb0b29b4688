"""list, retry, resolve."""

from __future__ import annotations

import json

import pytest

from tests.cli import sends
from tests.cli.conftest import Call
from tests.conftest import Database

pytestmark = pytest.mark.every_server


def failed(database: Database) -> int:
    number = sends.send(database)
    sends.supervise(database, number)
    sends.fail(database, sends.begin(database, number))
    sends.supervise(database, number)
    return number


def unknown(database: Database) -> int:
    number = sends.send(database)
    sends.supervise(database, number)
    sends.lose(database, sends.begin(database, number))
    sends.supervise(database, number)
    return number


def listed(call: Call, *arguments: str) -> list[tuple[str, int, str | None]]:
    status, out, _err = call("process", "list", *arguments, "--json", role="admin")
    assert status == 0
    rows = [json.loads(line) for line in out.splitlines()]
    return [(row["process"], row["id"], row["state"]) for row in rows]


def test_list_shows_the_newest_of_every_kind_first_and_filters(call: Call, database: Database) -> None:
    first, second, third = failed(database), unknown(database), sends.send(database)
    database.execute("select comms.send_sms('+491701234567', 'Hello')")
    assert listed(call) == [
        ("comms.send_sms", 1, "open"),
        ("comms.send_email", third, "open"),
        ("comms.send_email", second, "unknown"),
        ("comms.send_email", first, "failed"),
    ]
    assert listed(call, "comms.send_email", "--state", "unknown") == [("comms.send_email", second, "unknown")]
    assert listed(call, "--limit", "1") == [("comms.send_sms", 1, "open")]
    out = call("process", "list", "comms.send_email", "--state", "failed", role="admin")[1]
    assert out.splitlines()[1].split()[-1] == "provider_refused"
    assert call("process", "list", "--state", "run_limit", role="admin")[1] == "no processes\n"


def test_retry_starts_a_new_process_and_prints_its_id(call: Call, database: Database) -> None:
    number = failed(database)
    status, out, _err = call("process", "retry", "comms.send_email", str(number), role="admin")
    assert status == 0
    ((retry_of,),) = database.execute(
        "select retry_of from comms.send_email_task where send_email_task_id = %s", int(out)
    )
    assert retry_of == number


def test_retry_of_what_has_not_failed_says_so(call: Call, database: Database) -> None:
    number = sends.send(database)
    status, out, err = call("process", "retry", "comms.send_email", str(number), role="admin")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"send {number} is not one that ended without success" in err


def test_a_number_that_no_process_can_have_is_refused_in_one_line(call: Call) -> None:
    for order in (("show",), ("retry",), ("resolve", "--sent")):
        status, out, err = call("process", *order, "comms.send_email", "9" * 20, role="admin")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "is not in the range" in err


def test_resolve_puts_on_record_what_a_person_found_out(call: Call, database: Database) -> None:
    number = unknown(database)
    command = ("process", "resolve", "comms.send_email", str(number))
    status, _out, err = call(*command, role="admin")
    assert (status, "--sent or --not-sent" in err) == (2, True)
    assert call(*command, "--not-sent", role="admin") == (0, f"{number} resolved as not sent\n", "")
    assert database.execute("select resolution from comms.send_email_task_resolved") == [("not_sent",)]
    assert listed(call, "--state", "unknown") == []
    assert listed(call, "--state", "resolved") == [("comms.send_email", number, "resolved")]
    status, _out, err = call(*command, "--sent", role="admin")
    assert (status, "was resolved before" in err) == (1, True)


def test_resolve_of_what_has_not_ended_as_unknown_says_how_it_stands(call: Call, database: Database) -> None:
    for number, stands in ((failed(database), "ended as failed"), (sends.send(database), "has not ended")):
        status, _out, err = call("process", "resolve", "comms.send_email", str(number), "--sent", role="admin")
        assert (status, stands in err) == (1, True)


def test_a_process_without_such_a_function_says_which_one_it_lacks(call: Call, database: Database) -> None:
    database.execute("create schema shop; create table shop.visit_task (visit_task_id bigint primary key)")
    database.execute(
        "create function shop.visit_supervisor(payload jsonb) returns jsonb language sql as 'select payload'"
    )
    status, _out, err = call("process", "retry", "shop.visit", "1", role="admin")
    assert (status, "shop.visit has no function shop.retry_visit(bigint)" in err) == (2, True)
    database.execute("create function shop.retry_visit(id bigint) returns bigint language sql as 'select id + 1'")
    assert call("process", "retry", "shop.visit", "1", role="admin") == (0, "2\n", "")
    database.execute("insert into shop.visit_task values (3)")
    assert listed(call, "shop.visit") == [("shop.visit", 3, None)]
