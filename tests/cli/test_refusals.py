"""Whatever is wrong with flags, environment, files or values: one line on stderr, a next step, exit status 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from reproq.cli.commands import reproq
from reproq.cli.run import run
from reproq.cli.worker import command as worker
from tests.conftest import Database

Outcome = tuple[int, str, str]
DSN = "postgresql://ann:canary-secret@127.0.0.1:1/shop"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("REPROQ_DATABASE_URL", raising=False)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def run_it(*arguments: str, command: click.Command = reproq) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            run(command, "reproq", arguments)
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return run_it


def refused(outcome: Outcome) -> str:
    status, out, err = outcome
    assert (status, out) == (2, "")
    assert err.startswith("reproq: error: ")
    assert err.count("\n") == 1
    assert "canary" not in err
    return err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["worker"], "no database: give --database-url"),
        (["worker", "--nonsense"], "No such option"),
        (["worker", "--leese", "3s"], "--lease"),
        (["worker", "extra"], "extra"),
        (["worker", "--lease"], "--lease"),
        (["worker", "--dsn", DSN, "--lease", "soon"], "--lease: 'soon' isn't a duration; write 30s"),
        (["worker", "--dsn", DSN, "--lease", "9s", "--heartbeat", "4s"], "heartbeat 4s is too slow for lease 9s"),
        (["worker", "--dsn", DSN, "--processes", "many"], "--processes: 'many'"),
        (["worker", "--dsn", DSN, "--app", "missing_of_the_test"], "no module 'missing_of_the_test'"),
        (["worker", "--dsn", DSN, "--app", "x.py"], "write x"),
        (["worker", "--dsn", DSN, "--config", "none.toml"], "no file none.toml"),
        (["worker", "--dsn", DSN, "--embedded"], "contradict"),
        (["worker", "--dsn", DSN, "--queue", "a b"], "--queue: 'a b' isn't a queue name"),
        (["worker", "--dsn", "mysql://ann:canary@h/x"], "mysql:// isn't a PostgreSQL address"),
        (["worker", "--dsn", "postgresql://ann:canary/1@h:5432/x"], "the port isn't a number"),
        (["worker", "--dsn", ""], "no PostgreSQL address"),
        (["migrate"], "no database"),
        (["migrate", "--sql", "--roles-sql"], "only one of"),
        (["migrate", "--role-prefix", "A-"], "role prefix"),
        (["enqueue"], "Missing argument 'TYPE'"),
        (["enqueue", "shop.pay"], "no database"),
        (["enqueue", "--dsn", DSN, "shop pay"], "isn't a task type"),
        (["enqueue", "--dsn", DSN, "shop.pay", "{invoice: 7}"], "isn't JSON"),
        (["enqueue", "--dsn", DSN, "shop.pay", "[1]"], "must be an object"),
        (["enqueue", "--dsn", DSN, "shop.pay", '{"a": NaN}'], "payload.a: nan"),
        (["enqueue", "--dsn", DSN, "shop.pay", '{"a": "\\u0000"}'], "payload.a: has a NUL"),
        (["enqueue", "--dsn", DSN, "shop.pay", '{"a": "\\ud800"}'], "lone surrogate"),
        (["enqueue", "--dsn", DSN, "shop.pay", '{"a":' * 5000], "nested too deeply"),
        (["enqueue", "--dsn", DSN, "shop.pay", '{"a": ' + "9" * 5000 + "}"], "isn't JSON"),
        (["enqueue", "--dsn", DSN, "shop.pay", "--delay", "soon"], "--delay: 'soon'"),
        (["enqueue", "--dsn", DSN, "shop.pay", "--at", "soon"], "--at: 'soon'"),
        (["enqueue", "--dsn", DSN, "shop.pay", "--at", "2030-01-01", "--delay", "1s"], "contradict"),
        (["enqueue", "--dsn", DSN, "shop.pay", "--priority", "high"], "--priority"),
        (["enqueue", "--dsn", DSN, "shop.pay", "--key", "a\udcff"], "surrogate"),
        (["enqueue", "--dsn", DSN, "shop.pay", "{}", "--many"], "--many reads"),
        (["enqueue", "--dsn", DSN, "shop.pay", "--many", "--key", "a"], "--key"),
        (["tasks", "nonsense"], "No such command"),
        (["tasks", "show"], "Missing argument"),
        (["tasks", "show", "seven"], "'seven' is not a valid integer"),
        (["tasks", "show", "7"], "no database"),
        (["tasks", "list", "--status", "gone"], "--status"),
        (["tasks", "list", "--limit", "0"], "--limit"),
        (["tasks", "delete", "7"], "--reason"),
        (["demo", "--nonsense"], "No such option"),
    ],
)
def test_a_wrong_call_is_one_line(call: Callable[..., Outcome], arguments: list[str], hint: str) -> None:
    assert hint in refused(call(*arguments))


def test_a_wrong_environment_is_one_line(call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROQ_LEES", "30s")
    for arguments in (["worker", "--dsn", DSN], ["migrate", "--sql"], ["enqueue", "--dsn", DSN, "shop.pay"]):
        assert "unknown environment variable REPROQ_LEES; did you mean REPROQ_LEASE?" in refused(call(*arguments))


def test_a_wrong_file_is_one_line(call: Callable[..., Outcome], tmp_path: Path) -> None:
    (tmp_path / "reproq.toml").write_text("processes = 'x'\n")
    assert "reproq.toml: processes: 'x'" in refused(call("worker", "--dsn", DSN))


def test_the_worker_of_cmd_takes_the_same_flags(call: Callable[..., Outcome]) -> None:
    assert "no database" in refused(call(command=worker))


def test_a_wrong_password_is_refused_and_not_waited_for(call: Callable[..., Outcome], database: Database) -> None:
    wrong = database.worker_dsn.replace(":", ":canary-wrong", 2).replace("canary-wrong//", "//")
    for arguments in (["worker", "--dsn", wrong], ["migrate", "--dsn", wrong], ["tasks", "list", "--dsn", wrong]):
        assert "password authentication failed" in refused(call(*arguments))


def test_an_unknown_database_is_refused_and_not_waited_for(call: Callable[..., Outcome], database: Database) -> None:
    wrong = database.dsn.replace(database.name, "no_such_database")
    assert '"no_such_database" does not exist' in refused(call("worker", "--dsn", wrong))
    assert '"no_such_database" does not exist' in refused(call("migrate", "--dsn", wrong))


def test_a_missing_schema_is_refused_when_migrating_is_forbidden(
    call: Callable[..., Outcome], new_database: Callable[..., Database]
) -> None:
    assert "reproq migrate" in refused(call("worker", "--dsn", new_database().dsn, "--no-migrate"))


def test_a_command_for_applications_does_not_wait_for_a_database(call: Callable[..., Outcome]) -> None:
    status, out, err = call("enqueue", "--dsn", DSN, "shop.pay")
    assert (status, out) == (1, "")
    assert "can't reach the database, nothing was stored" in err
    assert "Start PostgreSQL, or mind host and port" in err
    assert err.count("\n") == 1
    assert "canary" not in err


def test_every_command_says_what_to_do_where_no_database_is(call: Callable[..., Outcome]) -> None:
    for command in (["tasks", "list"], ["queues", "list"], ["bench"]):
        status, _out, err = call(*command, "--dsn", DSN)
        assert (status, err.count("\n"), "canary" in err) == (1, 1, False)
        assert "Connection refused; start PostgreSQL, or mind host and port" in err


def test_no_arguments_show_the_help(call: Callable[..., Outcome]) -> None:
    _status, out, err = call()
    assert "reproq demo" in out + err


def test_a_bug_keeps_its_traceback_without_its_secrets(
    call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object, **_more: object) -> None:
        raise ZeroDivisionError("of postgresql://ann:canary-secret@h/x")

    monkeypatch.setattr("reproq.cli.worker.work", broken)
    status, _out, err = call("worker", "--dsn", DSN)
    assert status == 1
    assert "ZeroDivisionError: of postgresql://ann:***@h/x" in err
    assert "in broken" in err
    assert "canary" not in err


def test_an_address_on_the_command_line_wins_over_the_environment_for_migrate(
    call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, new_database: Callable[..., Database]
) -> None:
    monkeypatch.setenv("REPROQ_MIGRATE_URL", DSN)
    assert call("migrate", "--dsn", new_database().dsn)[0] == 0
