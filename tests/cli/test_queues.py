"""`reproq queues` as an operator uses it."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Call
from tests.conftest import Database


def listed(call: Call, *arguments: str) -> list[dict[str, object]]:
    status, out, err = call("queues", *arguments, "--json", role="admin")
    assert (status, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_each_queue_tells_what_waits_and_runs(call: Call, database: Database) -> None:
    assert call("queues", "list", role="admin")[1] == "no queue has tasks\n"
    database.execute("select queues.enqueue_many('t', array['{}', '{}', '{}']::jsonb[])")
    database.execute("select queues.enqueue('t', queue_name => 'bulk', scheduled_at => now() + interval '1 h')")
    database.execute("select queues.claim('w', '{default}', null, '30 s', 1, null)")
    database.execute(
        "update queues.task_runs set run_after = now() - interval '90 s' where status = 'PENDING'"
        " and queue_name = 'default'"
    )
    call("queues", "pause", "bulk", role="admin")
    rows = {row["queue"]: row for row in listed(call, "list")}
    default, bulk = rows["default"], rows["bulk"]
    assert (default["paused"], default["due"], default["later"], default["running"]) == (False, 2, 0, 1)
    assert (bulk["paused"], bulk["due"], bulk["later"], bulk["running"]) == (True, 0, 1, 0)
    assert default["oldest_waits_s"] in range(90, 150)
    assert "default" in call("queues", "list", role="admin")[1]


def test_a_queue_and_a_type_are_paused_and_resumed(call: Call, database: Database) -> None:
    database.execute("select queues.enqueue('t')")
    claim = "select count(*) from queues.claim('w', null, null, '30 s', 1, null)"
    for name in (("default",), ("t", "--type")):
        assert call("queues", "pause", *name, role="admin")[:2] == (0, "paused\n")
        assert database.execute(claim) == [(0,)]
        assert call("queues", "resume", *name, role="admin")[:2] == (0, "resumed\n")
    assert database.execute(claim) == [(1,)]


def test_a_limit_comes_and_goes(call: Call) -> None:
    assert call("queues", "limit", "type", "t", "--rate", "5", "--burst", "10", role="admin")[:2] == (0, "limited\n")
    assert listed(call, "limits") == [
        {"scope": "type", "name": "t", "at_once": None, "rate": 5.0, "burst": 10.0, "tokens": 10.0}
    ]
    assert call("queues", "limit", "type", "t", role="admin")[:2] == (0, "removed\n")
    assert call("queues", "limits", role="admin")[1] == "no limits\n"


@pytest.mark.parametrize(
    "arguments", [("limit", "key", "k", "--at-once", "0"), ("limit", "shelf", "k"), ("pause", "a b")]
)
def test_what_makes_no_sense_is_one_line_and_status_2(call: Call, arguments: tuple[str, ...]) -> None:
    status, out, err = call("queues", *arguments, role="admin")
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [("list",), ("limits",), ("pause", "bulk"), ("limit", "key", "k", "--at-once", "1")]
)
def test_an_app_is_told_who_may(call: Call, arguments: tuple[str, ...]) -> None:
    status, _out, err = call("queues", *arguments)
    assert status == 2
    assert "the owner or an administrator" in err
