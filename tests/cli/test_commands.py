"""enqueue, tasks and migrate against a real database."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.conftest import Database


def rows(database: Database) -> list[dict[str, Any]]:
    return [row for (row,) in database.execute("select to_jsonb(t) from queues.task_runs t order by id")]


def end(database: Database, task_id: int, ending: str) -> None:
    database.execute(f"update queues.task_runs set {ending}, completed_at = now() where id = %s", task_id)


def test_enqueue_prints_the_id_and_nothing_else(call: Call, database: Database) -> None:
    status, out, err = call("enqueue", "shop.pay", '{"invoice": 7}')
    assert (status, err) == (0, "")
    (row,) = rows(database)
    assert out == f"{row['id']}\n"
    assert row["payload_json"] == {"invoice": 7}


def test_enqueue_hands_every_option_over(call: Call, database: Database) -> None:
    arguments = ["--queue", "slow", "--priority", "5", "--at", "2040-01-01T12:00:00+01:00", "--key", "k"]
    assert call("enqueue", "shop.pay", *arguments, "--max-attempts", "9", "--timeout", "2m", "--limit-key", "c")[0] == 0
    (row,) = rows(database)
    assert (row["queue_name"], row["priority"], row["idempotency_key"], row["max_attempts"]) == ("slow", 5, "k", 9)
    assert (row["timeout_s"], row["limit_key"]) == (120, "c")
    assert row["run_after"].startswith("2040-01-01T11:00:00")


def test_enqueue_reads_a_payload_from_stdin(call: Call, database: Database) -> None:
    assert call("enqueue", "shop.pay", "-", stdin='{"a": "Grüße"}'.encode())[0] == 0
    assert rows(database)[0]["payload_json"] == {"a": "Grüße"}
    status, _out, err = call("enqueue", "shop.pay", "-", stdin=b"\xff")
    assert (status, "isn't UTF-8" in err) == (2, True)


def test_enqueue_refuses_null_as_a_payload(call: Call, database: Database) -> None:
    for arguments, stdin in (["null"], b""), (["--many"], b"{}\nnull\n"):
        status, out, err = call("enqueue", "shop.pay", *arguments, stdin=stdin)
        assert (status, out, "must be a JSON object, not null" in err) == (2, "", True)
    assert rows(database) == []


def test_enqueue_of_many_prints_an_id_a_line_and_is_all_or_none(call: Call, database: Database) -> None:
    status, out, _err = call("enqueue", "shop.pay", "--many", stdin=b'{"n": 1}\n\n{"n": 2}\n')
    assert (status, len(out.split())) == (0, 2)
    status, out, err = call("enqueue", "shop.pay", "--many", stdin=b'{"n": 3}\n{"n": \n')
    assert (status, out) == (2, "")
    assert "line 2 isn't JSON" in err
    assert len(rows(database)) == 2


def test_enqueue_and_wait_prints_the_result(call: Call, database: Database) -> None:
    task_id = int(call("enqueue", "shop.pay", "--key", "k")[1])
    end(database, task_id, """status = 'SUCCESSFUL', result_json = '{"paid": "ü"}'""")
    status, out, err = call("enqueue", "shop.pay", "--key", "k", "--wait")
    assert (status, out, err) == (0, '{"paid": "ü"}\n', f"{task_id}\n")


def test_enqueue_and_wait_ends_with_status_1_when_the_task_fails_or_takes_too_long(
    call: Call, database: Database
) -> None:
    task_id = int(call("enqueue", "shop.pay", "--key", "k")[1])
    status, out, err = call("enqueue", "shop.pay", "--key", "k", "--wait-timeout", "50ms")
    assert (status, out) == (1, "")
    assert f"reproq tasks show {task_id}" in err
    end(database, task_id, "status = 'FAILED', failure_kind = 'raised', last_error = 'ValueError: x', attempt_count=3")
    status, out, err = call("enqueue", "shop.pay", "--key", "k", "--wait")
    assert (status, out) == (1, "")
    assert "failed after 3 attempts, raised: ValueError: x" in err


def test_a_refusal_of_the_database_is_one_line_with_its_hint(call: Call) -> None:
    status, _out, err = call("enqueue", "shop.pay", "--priority", "1000001")
    assert (status, err.count("\n")) == (2, 1)
    assert "priority 1000001 is out of range" in err
    status, _out, err = call("enqueue", "db_function", '{"db_function": "pg_catalog.now"}')
    assert (status, err.count("\n")) == (2, 1)


def test_show_tells_how_a_task_stands(call: Call, database: Database) -> None:
    task_id = int(call("enqueue", "shop.pay")[1])
    end(database, task_id, "status = 'FAILED', failure_kind = 'raised', last_error = E'boom\\x1b[2J', attempt_count=3")
    status, out, _err = call("tasks", "show", str(task_id))
    assert status == 0
    assert "boom?[2J" in out
    assert "FAILED" in out
    status, out, _err = call("tasks", "show", str(task_id), "--json")
    assert json.loads(out)["failure_kind"] == "raised"


def test_show_of_an_unknown_task_is_status_1(call: Call) -> None:
    status, out, err = call("tasks", "show", "4711")
    assert (status, out) == (1, "")
    assert "no task 4711" in err


def test_list_shows_the_newest_first_and_filters(call: Call, database: Database) -> None:
    for name in ("shop.pay", "shop.mail", "other"):
        call("enqueue", name)
    status, out, _err = call("tasks", "list", role="admin")
    assert status == 0
    assert [line.split()[1] for line in out.splitlines()] == ["task", "other", "shop.mail", "shop.pay"]
    out = call("tasks", "list", "--type", "shop.", "--status", "pending", "--limit", "1", "--json", role="admin")[1]
    assert json.loads(out)["task_type"] == "shop.mail"
    assert call("tasks", "list", "--queue", "none", role="admin")[1] == "no tasks\n"


def test_list_by_a_login_that_may_not_is_one_line(call: Call) -> None:
    status, _out, err = call("tasks", "list")
    assert (status, err.count("\n")) == (2, 1)
    assert "may not see all tasks: give --database-url of the owner" in err


def test_delete_and_replay_by_a_login_that_may_not_name_the_login_that_may(call: Call) -> None:
    task_id = call("enqueue", "shop.pay")[1].strip()
    for arguments in (["delete", task_id, "--reason", "twice"], ["replay", task_id]):
        status, _out, err = call("tasks", *arguments)
        assert (status, err.count("\n")) == (2, 1)
        assert "takes the address of the owner" in err


def test_cancel_delete_and_replay_answer_for_each_task(call: Call, database: Database) -> None:
    ids = [call("enqueue", "shop.pay")[1].strip() for _ in range(3)]
    assert call("tasks", "cancel", ids[0], "--reason", "left") == (0, f"{ids[0]} cancelled\n", "")
    assert call("tasks", "delete", ids[1], "--reason", "twice", role="admin") == (0, f"{ids[1]} deleted\n", "")
    end(database, int(ids[2]), "status = 'FAILED', failure_kind = 'raised', attempt_count = 3")
    assert call("tasks", "replay", ids[2], role="admin") == (0, f"{ids[2]} replayed\n", "")
    status, out, err = call("tasks", "cancel", "4711", ids[0])
    assert (status, out) == (1, f"4711 unknown\n{ids[0]} cancelled\n")
    assert "1 of the tasks" in err


def test_orders_answer_programs_with_an_object_for_each_task(call: Call, database: Database) -> None:
    first = json.loads(call("enqueue", "shop.pay", "--json")[1])["id"]
    status, out, _err = call("tasks", "cancel", "4711", str(first), "--json")
    answers = [json.loads(line) for line in out.splitlines()]
    assert (status, answers) == (1, [{"id": 4711, "answer": "unknown"}, {"id": first, "answer": "cancelled"}])
    for order in ("tasks", "replay"), ("replay",), ("dead-letter", "replay"):
        end(database, first, "status = 'FAILED', failure_kind = 'raised', attempt_count = 3, claim_no = 1")
        status, out, _err = call(*order, str(first), "--json", role="admin")
        assert (status, json.loads(out)) == (0, {"id": first, "answer": "replayed"})
    status, out, _err = call("tasks", "delete", str(first), "--reason", "twice", "--json", role="admin")
    assert (status, json.loads(out)) == (0, {"id": first, "answer": "deleted"})


def test_enqueue_answers_programs_with_ids_or_the_task_as_it_ended(call: Call, database: Database) -> None:
    status, out, _err = call("enqueue", "shop.pay", "--many", "--json", stdin=b'{"n": 1}\n{"n": 2}\n')
    assert (status, [json.loads(line) for line in out.splitlines()]) == (0, [{"id": r["id"]} for r in rows(database)])
    ended = rows(database)[0]["id"]
    end(database, ended, "status = 'FAILED', failure_kind = 'raised', last_error = 'boo', idempotency_key = 'k'")
    status, out, err = call("enqueue", "shop.pay", '{"n": 1}', "--key", "k", "--wait", "--json")
    task = json.loads(out)
    assert (status, task["id"], task["status"], task["last_error"]) == (1, ended, "FAILED", "boo")
    assert "reproq: error: task" in err


def test_migrate_is_safe_to_repeat(call: Call, new_database: Callable[..., Database]) -> None:
    empty = new_database()
    status, out, _err = call("migrate", "--dsn", empty.dsn)
    assert status == 0
    assert "schema is now version" in out
    assert "nothing to do" in call("migrate", "--dsn", empty.dsn)[1]


def test_migrate_prints_sql_without_a_database(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _err = call("migrate", "--sql")
    assert status == 0
    assert "queues.task_runs" in out
    status, out, _err = call("migrate", "--roles-sql", "--role-prefix", "acme_")
    assert status == 0
    assert "acme_worker_service_user" in out


def test_a_closed_pipe_is_no_traceback(database: Database) -> None:
    script = f"{sys.executable} -m reproq migrate --sql | head -1"
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr == b""
