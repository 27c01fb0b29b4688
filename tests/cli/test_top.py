"""`reproq top` before a real terminal, against a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reproq.cli.top_looks import step_between
from reproq.db.embedded import UNSAFE_AND_FAST, EmbeddedServer
from tests.cli.conftest import Call
from tests.cli.screens import ROOT, Screen
from tests.conftest import Database

ALTERNATE, NORMAL = b"\x1b[?1049h", b"\x1b[?1049l"
BUSY = """
select queues.enqueue_many('shop.pay', array_fill('{}'::jsonb, array[5]));
select queues.enqueue('shop.later', scheduled_at => now() + interval '1 hour', queue_name => 'bulk');
select queues.pause_queue('bulk', true);
select queues.register_worker('db1/17/c0ffee', 'db1', 17, '0.1.0', '{default}', '{shop.}', 2, '{"shop.pay": {}}');
select queues.claim('db1/17/c0ffee', '{default}', '{shop.}', '30 s', 3, null);
select queues.lead('db1/17/c0ffee', '60 s')"""


@pytest.fixture
def busy(database: Database) -> Database:
    for statement in BUSY.strip().split(";\n"):
        database.execute(statement)
    return database


def top(dsn: str, *options: str, **more: Any) -> Screen:
    return Screen(
        "top", "--interval", "200ms", *options, environ={"REPROQ_DATABASE_URL": dsn, **more.pop("environ", {})}, **more
    )


def row(text: str, first: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.lstrip("* ").startswith(first))


def test_it_shows_queues_and_workers_in_80_columns(busy: Database) -> None:
    with top(busy.worker_dsn) as screen:
        text = screen.wait_for(lambda text: "db1/17" in text and "? help" in text)
        assert row(text, "QUEUE")[:6] == ["QUEUE", "READY", "LATER", "WAITING", "RUNNING", "DEAD"]
        assert row(text, "default")[1:6] == ["2", "0", "0", "3", "0"]
        assert row(text, "bulk")[:4] == ["bulk", "paused", "0", "1"]
        assert row(text, "db1/17")[:6] == ["*", "db1/17", "default:", "shop.*", "2/2", "3"]
        assert "c0ffee" not in screen.raw.decode()
        assert "q quit" in text.splitlines()[-1]


def test_what_comes_in_is_seen_without_a_key(busy: Database) -> None:
    with top(busy.worker_dsn) as screen:
        screen.wait_for("default")
        busy.execute("select queues.enqueue_many('shop.pay', array_fill('{}'::jsonb, array[1000]))")
        text = screen.wait_for("1002")
        assert row(text, "in")[1] != "0/s"


@pytest.mark.parametrize("ending", ["q", "\x03"])
def test_q_and_ctrl_c_end_it_with_0_and_leave_the_terminal_as_it_was(busy: Database, ending: str) -> None:
    with top(busy.worker_dsn) as screen:
        screen.wait_for("default")
        assert screen.mode() != screen.mode_before
        screen.press(ending)
        assert screen.end() == 0
        assert screen.mode() == screen.mode_before
        assert screen.raw.find(ALTERNATE) < screen.raw.rfind(NORMAL)
        assert b"Traceback" not in screen.raw


def test_a_killed_one_leaves_the_terminal_as_it_was(busy: Database) -> None:
    with top(busy.worker_dsn) as screen:
        screen.wait_for("default")
        screen.process.send_signal(signal.SIGTERM)
        assert screen.end() == 128 + signal.SIGTERM
        assert screen.mode() == screen.mode_before
        assert screen.raw.rstrip().endswith(b"\x1b[?25h") or NORMAL in screen.raw[-40:]


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(busy: Database) -> None:
    with top(busy.worker_dsn) as screen:
        screen.wait_for("? help")
        screen.press("\x1a")
        stat = Path(f"/proc/{screen.process.pid}/stat")
        screen.wait_for(lambda _: stat.read_text().rpartition(")")[2].split()[0] == "T")
        assert screen.mode() == screen.mode_before
        screen.process.send_signal(signal.SIGCONT)
        screen.wait_for(lambda _: screen.mode() != screen.mode_before)
        screen.press("q")
        assert screen.end() == 0


def test_its_keys_sort_hold_and_help(busy: Database) -> None:
    with top(busy.worker_dsn) as screen:
        screen.wait_for("sort: name")
        assert screen.text.index("bulk") < screen.text.index("default ")
        screen.press("s")
        screen.wait_for("sort: ready")
        assert screen.text.index("default ") < screen.text.index("bulk")
        screen.press("p")
        held = screen.wait_for("p held  s sort: ready  ? help").splitlines()
        busy.execute("select queues.enqueue('other', queue_name => 'fresh')")
        screen.press("?")
        assert "dead letters" in screen.wait_for("READY   due")
        screen.press("?")
        screen.wait_for(lambda text: text.splitlines() == held)  # it is drawn line by line
        screen.press("p")
        screen.wait_for("fresh")


def test_it_follows_the_size_of_its_window(busy: Database) -> None:
    for number in range(30):
        busy.execute("select queues.enqueue('t', queue_name => %s)", f"q{number:02}")
    with top(busy.worker_dsn) as screen:
        text = screen.wait_for(lambda text: "more queues" in text and "? help" in text)
        assert "db1/17" in text
        assert "q29" not in text
        screen.resize(120, 50)
        text = screen.wait_for(lambda text: "q29" in text and "HOST" in text and "? help" in text)
        assert "more queues" not in text


def test_it_goes_on_after_a_restart_of_the_database(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data", settings=UNSAFE_AND_FAST) as server:
        server.install(say=lambda _: None)
        with top(server.worker_dsn) as screen:
            screen.wait_for("no queue has open tasks")
            os.kill(server.pid, signal.SIGINT)
            assert "no queue has open tasks" in screen.wait_for("database away for")
            server.restart()
            screen.wait_for("q quit")


def test_a_database_that_doesnt_answer_holds_up_no_key(busy: Database) -> None:
    with top(busy.worker_dsn) as screen:
        screen.wait_for("? help")
        with busy.connect().transaction() as locked:
            locked.connection.execute("lock table queues.task_runs")
            assert "default" in screen.wait_for("the database hasn't answered for")
            screen.press("q")
            assert screen.end() == 0


def test_no_color_is_obeyed(busy: Database) -> None:
    with top(busy.worker_dsn, environ={"NO_COLOR": "1"}) as screen:
        screen.wait_for("default")
        screen.press("q")
        assert screen.end() == 0
        assert b"\x1b[36m" not in screen.raw
        assert b"\x1b[31" not in screen.raw


def test_without_a_terminal_it_prints_one_sheet(busy: Database) -> None:
    command = [sys.executable, "-m", "reproq", "top", "--interval", "200ms", "--database-url", busy.worker_dsn]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ | {"COLUMNS": "80"}
    )
    assert "\x1b" not in done.stdout
    assert row(done.stdout, "default")[1] == "2"
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_json_is_one_document(call: Call, busy: Database) -> None:
    status, out, err = call("top", "--json", "--interval", "200ms", role="admin")
    assert (status, err) == (0, "")
    told = json.loads(out)
    queues = {queue["name"]: queue for queue in told["queues"]}
    assert (queues["default"]["ready"], queues["default"]["running"], queues["default"]["in_per_s"]) == (2, 3, 0)
    assert told["workers"][0]["name"] == "db1/17"
    assert "c0ffee" not in out


def test_a_login_that_may_not_look_is_told_which_may(call: Call) -> None:
    status, out, err = call("top", "--once")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "grant reproq_reader to reproq_app_login" in err


@pytest.mark.parametrize("interval", ["0.1s", "2m", "soon"])
def test_an_interval_that_makes_no_sense_is_refused(call: Call, interval: str) -> None:
    status, _out, err = call("top", "--interval", interval)
    assert (status, err.count("\n"), "--interval" in err) == (2, 1, True)


def _queue(**more: Any) -> dict[str, Any]:
    return {"name": "q", "ready": 0, "later": 0, "waiting": 0, "running": 0, "came": 0} | more


def _look(at: float, last_id: int, updates: int, *queues: dict[str, Any]) -> dict[str, Any]:
    return {"at": at, "most": 100, "last_id": last_id, "updates": updates, "queues": list(queues)}


def test_what_left_is_what_came_less_the_growth() -> None:
    step = step_between(_look(0, 10, 0, _queue(ready=10)), _look(2, 30, 60, _queue(ready=5, running=1, came=20)))
    assert (step.seconds, step.came, step.out) == (2, {"q": 20}, {"q": 24})
    assert (step.came_in_all, step.out_in_all, step.is_estimate) == (20, 24, False)


def test_at_the_bound_the_changes_of_rows_tell_what_left() -> None:
    before = _look(0, 0, 1000, _queue(ready=100), _queue(name="small", ready=1))
    after = _look(1, 400, 1500, _queue(ready=100, came=75), _queue(name="small", came=25))
    step = step_between(before, after)
    assert step.came == {"q": 300, "small": 100}
    assert (step.out, step.out_in_all, step.is_estimate) == ({"q": None, "small": None}, 250, True)


def test_a_queue_that_is_gone_has_left() -> None:
    step = step_between(_look(0, 5, 0, _queue(running=5)), _look(1, 5, 10))
    assert (step.out, step.out_in_all) == ({"q": 5}, 5)
