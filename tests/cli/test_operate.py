"""What an operator does with tasks: look at a life, wait, read output, order many, run again, compare."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from reproq.cli import enqueue, terminal
from tests.cli.conftest import Call
from tests.cli.screens import Screen
from tests.conftest import Database

FENCE = "host/12/secret"


def enqueued(call: Call, *arguments: str) -> int:
    return int(call("enqueue", *(arguments or ("shop.pay",)))[1])


def end(database: Database, task_id: int, ending: str) -> None:
    database.execute(f"update queues.task_runs set {ending}, completed_at = now() where id = %s", task_id)


def succeed(database: Database, task_id: int, result: str = "null") -> None:
    end(database, task_id, f"status = 'SUCCESSFUL', result_json = '{result}'")


def attempt(database: Database, success: bool, **more: Any) -> int:
    """The next task runs once, as a worker would tell of it."""
    ((task_id, claim_no),) = database.execute(
        f"select id, claim_no from queues.claim('{FENCE}', null, null, '30 s', 1, null)"
    )
    outcome = {"id": task_id, "claim_no": claim_no, "success": success, **more}
    database.execute(f"select queues.finish('{FENCE}', %s)", json.dumps([outcome]))
    return int(task_id)


def failed_twice(call: Call, database: Database) -> int:
    task_id = enqueued(call, "shop.pay", '{"invoice": 7}', "--max-attempts", "2")
    for signal in (None, 9):
        detail = {"child": "app-1", "pid": 77, "duration_s": 0.5, "cpu_s": 0.25, "max_rss_kb": 20480}
        detail |= {"signal": signal, "output": f"looking\nat {signal}\x1b[2J\n"}
        attempt(database, False, kind="killed" if signal else "raised", error="boom", retry_in_s=0, detail=detail)
    return task_id


def test_the_life_of_a_task_tells_each_attempt(call: Call, database: Database) -> None:
    task_id = failed_twice(call, database)
    call("tasks", "replay", str(task_id), role="admin")
    status, out, err = call("tasks", "show", str(task_id))
    assert (status, err) == (0, "")
    assert out.startswith(f"task {task_id}  shop.pay  PENDING, 2 of 5 attempts, killed\n")
    lines = out.splitlines()
    first, second = (next(line for line in lines if f"attempt {number}:" in line) for number in (1, 2))
    assert "raised, after 0.500 s, by host/12, child app-1 (pid 77), CPU 0.250 s, 20 MiB" in first
    assert "signal 9 (SIGKILL)" in second
    assert any(line.endswith("| at 9?[2J") for line in lines)
    assert any(line.endswith("again after 0 s") for line in lines)
    assert re.search(r"\|\.* +replayed by postgres$", out, re.MULTILINE)
    assert out.index("attempt 1:") < out.index("attempt 2:") < out.index("replayed by")
    assert "secret" not in out


def test_the_life_as_json_has_the_same_for_programs(call: Call, database: Database) -> None:
    task_id = failed_twice(call, database)
    out = call("tasks", "show", str(task_id), "--json")[1]
    life = json.loads(out)
    assert (life["id"], life["status"], life["payload_json"]) == (task_id, "FAILED", {"invoice": 7})
    assert [(each["attempt"], each["outcome"], each["detail"].get("signal")) for each in life["attempts"]] == [
        (1, "retried", None), (2, "failed", 9),
    ]  # fmt: skip
    assert "secret" not in out


def test_a_task_that_runs_has_succeeded_or_was_cancelled_tells_so_by_its_row(call: Call, database: Database) -> None:
    done, running, stopped = (enqueued(call) for _ in range(3))
    assert attempt(database, True, payload={"paid": True}, ran_s=0.2) == done
    assert "attempt 1: succeeded, after 0.2" in call("tasks", "show", str(done))[1]
    database.execute(f"select queues.claim('{FENCE}', null, null, '30 s', 2, null)")
    assert "attempt 1: running, for" in call("tasks", "show", str(running))[1]
    call("tasks", "cancel", str(stopped), "--reason", "left")
    out = call("tasks", "show", str(stopped))[1]
    assert "CANCELLED (still stopping)" in out
    assert "attempt 1: stopping" in out
    assert "cancelled by reproq_app_login: left" in out


def test_a_deleted_task_is_shown_with_its_reason(call: Call) -> None:
    task_id = str(enqueued(call))
    call("tasks", "delete", task_id, "--reason", "entered twice", role="admin")
    out = call("tasks", "show", task_id)[1]
    assert "deleted: entered twice" in out
    assert "deleted by postgres" in out


def test_logs_prints_the_output_of_each_attempt(call: Call, database: Database) -> None:
    task_id = str(failed_twice(call, database))
    status, out, _err = call("tasks", "logs", task_id)
    assert status == 0
    assert out.splitlines() == [
        f"== task {task_id}, attempt 1: retried", "looking", "at None?[2J",
        f"== task {task_id}, attempt 2: failed", "looking", "at 9?[2J",
    ]  # fmt: skip
    (line,) = call("tasks", "logs", task_id, "--attempt", "2", "--json")[1].splitlines()
    assert json.loads(line)["output"] == "looking\nat 9\x1b[2J\n"
    status, out, err = call("tasks", "logs", task_id, "--attempt", "3")
    assert (status, out, "no output is stored" in err) == (1, "", True)


def test_wait_ends_by_what_became_of_them(call: Call, database: Database) -> None:
    good, bad, gone, open_ = (enqueued(call) for _ in range(4))
    succeed(database, good)
    end(database, bad, "status = 'FAILED', failure_kind = 'raised', last_error = 'boom', attempt_count = 3")
    call("tasks", "cancel", str(gone), "--reason", "left")
    assert call("tasks", "wait", str(good)) == (0, f"{good} SUCCESSFUL\n", "")
    assert call("tasks", "wait", str(bad), str(good)) == (1, f"{bad} FAILED raised: boom\n{good} SUCCESSFUL\n", "")
    assert call("tasks", "wait", str(gone))[:2] == (4, f"{gone} CANCELLED left\n")
    assert call("tasks", "wait", str(gone), str(bad))[0] == call("tasks", "wait", str(bad), str(gone))[0] == 1
    assert call("tasks", "wait", "4711")[:2] == (1, "4711 unknown\n")
    status, out, err = call("tasks", "wait", str(good), str(open_), "--timeout", "50ms")
    assert (status, out) == (124, f"{good} SUCCESSFUL\n")
    assert f"task {open_} isn't over yet" in err
    assert json.loads(call("tasks", "wait", str(good), "--json")[1])["status"] == "SUCCESSFUL"


def test_cancel_by_filter_counts_asks_and_goes_in_batches(
    call: Call, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reproq.cli.chosen.BATCH", 2)
    for _ in range(5):
        enqueued(call, "shop.mail")
    other = enqueued(call, "other")
    assert call("tasks", "cancel", "--type", "shop.", "--dry-run")[:2] == (0, "5 tasks would be cancelled\n")
    status, out, err = call("tasks", "cancel", "--type", "shop.")
    assert (status, out) == (2, "")
    assert "5 tasks will be cancelled. Go on? Nobody is here to answer: add --yes" in err
    assert call("tasks", "cancel", "--type", "shop.", "--limit", "3", "--yes")[:2] == (0, "3 cancelled\n")
    out = call("tasks", "cancel", "--type", "shop.", "--yes", "--json", "--reason", "late")[1]
    assert json.loads(out) == {"chosen": 2, "answers": {"cancelled": 2}}
    assert call("tasks", "cancel", "--type", "shop.", "--yes")[:2] == (0, "no task fits\n")
    assert database.execute("select id from queues.task_runs where status = 'PENDING'") == [(other,)]


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 130)])
def test_who_is_asked_may_say_no(
    call: Call, database: Database, monkeypatch: pytest.MonkeyPatch, answer: str, status: int
) -> None:
    enqueued(call)
    monkeypatch.setattr(terminal, "somebody_is_here", lambda: True)
    assert call("tasks", "cancel", "--type", "shop", stdin=answer.encode())[0] == status
    left = database.execute("select count(*) from queues.task_runs where status = 'PENDING'")
    assert left == [(0 if status == 0 else 1,)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("tasks", "cancel"),
        ("tasks", "cancel", "--yes"),
        ("tasks", "cancel", "7", "--dry-run"),
        ("tasks", "cancel", "7", "--queue", "bulk"),
        ("tasks", "cancel", "--status", "FAILED", "--yes"),
        ("tasks", "cancel", "--older-than", "soon"),
        ("dead-letter", "replay"),
        ("dead-letter", "replay", "--status", "SUCCESSFUL"),
        ("replay", "7", "8", "--compare"),
        ("replay", "7", "--timeout", "5m"),
        ("queues", "audit", "payments", "some"),
        ("queues", "dead-letter", "payments", "email"),
        ("enqueue", "t", "--file", "missing.json"),
        ("enqueue", "t", "{}", "--file", "x"),
        ("enqueue", "t", "--commit-every", "5"),
        ("tasks", "wait", "7", "--timeout", "soon"),
        ("process", "list", "--state", "bogus"),
        ("process", "list", "comms.send_email", "--state", "bogus"),
    ],
)
def test_an_order_that_makes_no_sense_is_one_line_and_status_2(call: Call, arguments: tuple[str, ...]) -> None:
    status, out, err = call(*arguments, role="admin")
    assert (status, out, len(err.splitlines())) == (2, "", 1)


def test_a_state_that_no_process_can_be_in_names_those_that_it_can(call: Call) -> None:
    err = call("process", "list", "--state", "bogus", role="admin")[2]
    assert "open, resolved, run_limit, succeeded, unknown" in err
    assert call("process", "list", "--state", "succeeded", role="admin")[:2] == (0, "no processes\n")


def dead(call: Call, database: Database, *arguments: str) -> int:
    task_id = enqueued(call, *(arguments or ("shop.pay",)))
    end(database, task_id, "status = 'FAILED', failure_kind = 'timed_out', last_error = 'slow', attempt_count = 3")
    return task_id


def test_dead_letters_are_counted_listed_and_replayed(call: Call, database: Database) -> None:
    assert call("dead-letter", "list", role="admin")[1] == "no dead letters\n"
    ids = [dead(call, database) for _ in range(3)]
    dead(call, database, "other")
    out = call("dead-letter", "list", role="admin")[1]
    assert re.search(r"^shop.pay +timed_out +3 ", out, re.MULTILINE)
    assert out.index(f"\n{ids[2]} ") < out.index(f"\n{ids[0]} ")
    counts = call("dead-letter", "list", "--type", "shop.", "--counts", "--json", role="admin")[1]
    assert json.loads(counts)["tasks"] == 3
    chosen = ("--type", "shop.", "--failure-kind", "timed_out")
    assert call("dead-letter", "replay", *chosen, "--dry-run", role="admin")[1] == "3 tasks would be replayed\n"
    assert call("dead-letter", "replay", *chosen, "--yes", role="admin")[:2] == (0, "3 replayed\n")
    assert database.execute("select count(*) from queues.task_runs where status = 'PENDING'") == [(3,)]


def test_a_replay_that_a_twin_stands_in_the_way_of_is_told(call: Call, database: Database) -> None:
    first = dead(call, database, "shop.pay", "--unique-among", "active")
    enqueued(call, "shop.pay", "--unique-among", "active")
    status, out, err = call("dead-letter", "replay", "--type", "shop.", "--yes", role="admin")
    assert (status, out) == (1, "1 twin_waits\n")
    status, out, err = call("replay", str(first), "4711", role="admin")
    assert (status, out) == (2, f"{first} refused\n4711 unknown\n")
    assert "another task of the same spec waits already" in err


def test_what_belongs_to_a_process_isnt_replayed(call: Call, database: Database) -> None:
    task_id = str(dead(call, database))
    database.execute("update queues.task_runs set supervised = true where id = %s", task_id)
    for arguments in (["replay", task_id], ["replay", task_id, "--compare", "--yes"]):
        status, _out, err = call(*arguments, role="admin")
        assert (status, "reproq process retry" in err) == (2, True)


@pytest.mark.parametrize(
    ("result", "status", "told"),
    [
        ('{"total": 7, "of": [1, 2]}', 0, "the same result"),
        ('{"total": 8, "of": [1, 2]}', 1, "result.total\n    - 7\n    + 8\n"),
        ('{"total": 7, "of": [1]}', 1, "result.of[1]\n    - 2\n"),
        ('{"total": 7, "of": [1, 2], "new": null}', 1, "result.new\n    + null\n"),
        ('{"total": true, "of": [1, 2]}', 1, "result.total\n    - 7\n    + true\n"),
    ],
)
def test_compare_runs_a_copy_and_shows_what_is_different(
    call: Call, database: Database, monkeypatch: pytest.MonkeyPatch, result: str, status: int, told: str
) -> None:
    task_id = enqueued(call, "shop.pay", '{"n": 1}', "--key", "k")
    succeed(database, task_id, '{"total": 7, "of": [1, 2]}')
    run_the_copy(monkeypatch, database, f"status = 'SUCCESSFUL', result_json = '{result}'")
    found, out, err = call("replay", str(task_id), "--compare", "--yes", role="admin")
    assert (found, told in out) == (status, True), out
    ((copy_id, of, key),) = database.execute(
        "select id, replay_of, idempotency_key from queues.task_runs where replay_of is not null"
    )
    assert (of, key) == (task_id, None)
    assert f"running as task {copy_id}" in err
    assert f"replayed as task {copy_id}" in call("tasks", "show", str(task_id))[1]


def run_the_copy(monkeypatch: pytest.MonkeyPatch, database: Database, ending: str) -> None:
    """As soon as somebody waits for it, it is over."""
    from reproq.client import Client

    wait = Client.wait

    def ended(client: Client, task_id: int, timeout: Any = None) -> Any:
        end(database, task_id, ending)
        return wait(client, task_id, timeout)

    monkeypatch.setattr(Client, "wait", ended)


def test_a_failure_is_compared_by_its_kind_and_error(
    call: Call, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = str(dead(call, database))
    same = "status = 'FAILED', failure_kind = 'timed_out', last_error = 'slow', attempt_count = 3"
    run_the_copy(monkeypatch, database, same)
    assert call("replay", task_id, "--compare", "--yes", role="admin")[0] == 0
    monkeypatch.undo()
    run_the_copy(monkeypatch, database, "status = 'SUCCESSFUL', result_json = '1'")
    monkeypatch.setenv("REPROQ_DATABASE_URL", database.dsn)
    status, out, _err = call("replay", task_id, "--compare", "--yes", "--json", role="admin")
    assert status == 1
    assert {"at": "status", "was": "FAILED", "is": "SUCCESSFUL"} in json.loads(out)["differences"]


def test_compare_asks_and_needs_a_task_that_has_ended(call: Call, database: Database) -> None:
    task_id = str(enqueued(call))
    assert "add --yes" in call("replay", task_id, "--compare", role="admin")[2]
    status, _out, err = call("replay", task_id, "--compare", "--yes", role="admin")
    assert (status, "hasn't ended" in err) == (2, True)
    assert database.execute("select count(*) from queues.task_runs") == [(1,)]
    succeed(database, int(task_id))
    status, _out, err = call("replay", task_id, "--compare", "--yes", "--timeout", "50ms", role="admin")
    assert (status, "isn't over yet" in err) == (1, True)


def test_workers_tells_who_leads_and_what_each_holds(call: Call, database: Database) -> None:
    assert call("workers", role="admin")[1] == "no worker has reported\n"
    for worker in (FENCE, "other/13/secret"):
        database.execute("select queues.register_worker(%s, 'host', 12, '1.0', '{bulk}', null, 4, '{}')", worker)
    database.execute("select queues.lead(%s, '1 minute')", FENCE)
    task_id = enqueued(call)
    database.execute(f"select queues.claim('{FENCE}', null, null, '30 s', 1, null)")
    status, out, _err = call("workers", role="admin")
    assert (status, "secret" in out) == (0, False)
    leader, other = out.splitlines()[1:]
    assert re.match(rf"\* +host/12 +1.0 +bulk +all +4 +1: {task_id} shop.pay +\d", leader)
    assert re.match(r" +other/13 +1.0 +bulk +all +4 +0 ", other)
    rows = [json.loads(line) for line in call("workers", "--json", role="admin")[1].splitlines()]
    assert [(row["leads"], [task["id"] for task in row["holds"]]) for row in rows] == [(True, [task_id]), (False, [])]
    assert call("workers")[0] == 2


def test_a_queue_is_audited_and_routed(call: Call, database: Database) -> None:
    assert call("queues", "audit", "default", "all", role="admin")[:2] == (0, "all\n")
    assert call("queues", "dead-letter", "default", "shop.morgue", role="admin")[:2] == (0, "routed\n")
    task_id = enqueued(call, "shop.pay", "{}", "--max-attempts", "1")
    attempt(database, False, error="boom", ran_s=0.1)
    out = call("tasks", "show", str(task_id))[1]
    ((letter,),) = database.execute("select id from queues.task_runs where dead_letter_of = %s", task_id)
    assert f"told to task {letter}, shop.morgue" in out
    assert f"tells of    {task_id}" in call("tasks", "show", str(letter))[1]
    (row,) = [json.loads(line) for line in call("queues", "list", "--json", role="admin")[1].splitlines()]
    assert (row["audit"], row["dead_letters_to"]) == ("all", "shop.morgue")
    assert call("queues", "dead-letter", "default", role="admin")[:2] == (0, "removed\n")


def test_many_from_a_file_are_stored_in_one_transaction(
    call: Call, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueue, "CHUNK", 2)
    file = tmp_path / "invoices.jsonl"
    file.write_text("".join(f'{{"n": {n}, "separator": "\u2028"}}\r\n' for n in range(5)), "utf-8")
    status, out, err = call("enqueue", "shop.pay", "--many", "--file", str(file))
    assert (status, err, len(out.split())) == (0, "", 5)
    assert database.execute("select count(distinct xmin::text) from queues.task_runs") == [(1,)]
    too_deep = '{"a": ' * 70 + "1" + "}" * 70 + "\n"
    file.write_text("\n".join(['{"n": 1}', '{"n": 2}', "", '{"n": 3}', too_deep]), "utf-8")
    status, out, err = call("enqueue", "shop.pay", "--many", "--file", str(file))
    assert (status, out) == (2, "")
    assert "line 5: payload is nested deeper than 64; nothing was stored" in err
    assert database.execute("select count(*) from queues.task_runs") == [(5,)]
    status, out, err = call("enqueue", "shop.pay", "--many", "--file", str(file), "--commit-every", "2")
    assert (status, len(out.split())) == (2, 2)
    assert "the 2 tasks before it are stored" in err
    assert database.execute("select count(*) from queues.task_runs") == [(7,)]


def test_a_line_that_is_no_object_is_refused_with_its_number(call: Call, database: Database) -> None:
    status, out, err = call("enqueue", "shop.pay", "--many", stdin=b'{"n": 1}\n\n[1]\n')
    assert (status, out) == (2, "")
    assert "line 3 must be a JSON object" in err
    assert database.execute("select count(*) from queues.task_runs") == [(0,)]


def test_a_payload_comes_from_a_file(call: Call, database: Database, tmp_path: Path) -> None:
    (tmp_path / "invoice.json").write_bytes(b'\xef\xbb\xbf{"invoice": 7}')
    assert call("enqueue", "shop.pay", "--file", "invoice.json")[0] == 0
    assert database.execute("select payload_json from queues.task_runs") == [({"invoice": 7},)]


def test_bars_and_spinners_are_for_a_terminal_only(capfd: pytest.CaptureFixture[str]) -> None:
    with terminal.bar("storing", 2) as storing, terminal.spinner("waiting"):
        storing.advance(2)
        with storing.aside():
            pass
    assert capfd.readouterr() == ("", "")
    assert not sys.stderr.isatty()


@pytest.mark.parametrize("commits", [(), ("--commit-every", "3")])
def test_ids_stand_on_lines_of_their_own_beside_a_bar(
    database: Database, tmp_path: Path, commits: tuple[str, ...]
) -> None:
    (tmp_path / "many.jsonl").write_text('{"n": 1}\n' * 8)
    environ = {"REPROQ_DATABASE_URL": database.app_dsn}
    arguments = ("enqueue", "shop.pay", "--many", "--file", str(tmp_path / "many.jsonl"), *commits)
    with Screen(*arguments, environ=environ) as screen:
        assert screen.end() == 0
        assert b"8/8" in screen.raw
        stored = [str(row[0]) for row in database.execute("select id from queues.task_runs order by id")]
        assert screen.text.split("\n")[: len(stored) + 1] == [*stored, ""]
