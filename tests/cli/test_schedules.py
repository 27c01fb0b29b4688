"""`reproq schedules` as an operator uses it."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Call
from tests.conftest import Database

NIGHTLY = ("put", "nightly", "shop.close_day", "--cron", "30 2 * * *", "--time-zone", "Europe/Berlin")


def test_a_schedule_from_its_making_to_its_end(call: Call, database: Database) -> None:
    status, out, err = call("schedules", *NIGHTLY)
    assert (status, err) == (0, "")
    assert "30:00" in out
    status, out, _ = call("schedules", "next", "nightly", "--count", "3")
    assert (status, len(out.splitlines())) == (0, 3)
    assert call("schedules", "pause", "nightly")[:2] == (0, "paused\n")
    status, out, _ = call("schedules", "list", "--json")
    assert [json.loads(line)["enabled"] for line in out.splitlines()] == [False]
    assert call("schedules", "resume", "nightly")[:2] == (0, "enabled\n")
    status, out, _ = call("schedules", "run", "nightly")
    assert status == 0
    assert database.execute("select task_type::text from queues.task_runs where id = %s", int(out)) == [
        ("shop.close_day",)
    ]
    assert "30 2 * * * Europe/Berlin" in call("schedules", "list")[1]
    assert call("schedules", "drop", "nightly")[:2] == (0, "dropped\n")
    assert call("schedules", "list")[1] == "no schedules\n"


@pytest.mark.parametrize("verb", ["next", "pause", "resume", "run", "drop"])
def test_a_schedule_that_does_not_exist_is_an_answer_of_no(call: Call, verb: str) -> None:
    status, out, err = call("schedules", verb, "nobody")
    assert (status, out) == (1, "")
    assert "no schedule nobody of yours" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("put", "s", "t"), "either a cron expression or an interval"),
        (("put", "s", "t", "--cron", "61 * * * *"), "out of range"),
        (("put", "s", "t", "--every", "soon"), "interval"),
        (("put", "s", "t", "{", "--every", "1 hour"), "json"),
        (("put", "s", "t", "--cron", "* * * * *", "--time-zone", "Mars"), "no time zone"),
    ],
)
def test_a_bad_schedule_is_one_line_and_status_2(call: Call, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = call("schedules", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_an_interval_takes_a_payload_and_a_queue(call: Call, database: Database) -> None:
    arguments = (
        "put",
        "poll",
        "shop.poll",
        '{"from": "bank"}',
        "--every",
        "5 minutes",
        "--queue",
        "slow",
        "--priority",
        "3",
    )
    assert call("schedules", *arguments, "--catch-up", "all")[0] == 0
    sql = "select payload_json, queue_name::text, priority, catch_up, every::text from queues.schedules"
    assert database.execute(sql) == [({"from": "bank"}, "slow", 3, "all", "00:05:00")]
