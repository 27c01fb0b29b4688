"""What an operator types: sinks, what is parked, replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from reproq.cli.commands import reproq
from reproq.cli.run import run
from tests.outbox.office import Office
from tests.outbox.receiver import Answer


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


Dispatch = Callable[..., Done]


@pytest.fixture
def dispatch(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Dispatch:
    """`reproq dispatch …` in this process, as an administrator."""
    monkeypatch.chdir(tmp_path)

    def run_it(*arguments: str, **environ: str) -> Done:
        with monkeypatch.context() as own:
            for name, value in {"REPROQ_DATABASE_URL": office.database.dsn, **environ}.items():
                own.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                run(reproq, "reproq", ["dispatch", *arguments])
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, *capfd.readouterr())

    return run_it


WRONG = [
    (["--allow-private", "10.0.0.1/8"], "10.0.0.1/8"), (["--sink", "Shop"], "isn't a sink's name"),
    (["--ca-file", "/nowhere"], "no file /nowhere"), (["--lease", "0"], "out of range"),
    (["--concurrency", "none"], "whole number"), (["--database-url", "mysql://x"], "isn't a PostgreSQL address"),
]  # fmt: skip


def test_a_senseless_setting_is_refused_in_one_line(office: Office, dispatch: Dispatch) -> None:
    for arguments, words in WRONG:
        done = dispatch(*arguments)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.stderr)
        assert done.stderr.count("\n") == 1, done.stderr
    done = dispatch(REPROQ_DISPATCH_POLL_INTERVALL="1s")
    assert done.returncode == 2 and "REPROQ_DISPATCH_POLL_INTERVAL" in done.stderr


def test_an_operator_adds_tests_disables_and_drops_a_sink(office: Office, dispatch: Dispatch) -> None:
    receiver = office.receiver(lambda request: Answer(503 if b"shop.bad" in request.body else 200))
    secret = dispatch("sinks", "secret").stdout.strip()
    put = dispatch("sinks", "put", "shop", receiver.url("/token"), "--private", "--type", "shop.")
    assert put.stdout == "added\n" and "REPROQ_SINK_SECRET_SHOP" in put.stderr
    tried = dispatch("sinks", "test", "shop", "--allow-private", "127.0.0.0/8", REPROQ_SINK_SECRET_SHOP=secret)
    assert tried.stdout == "shop answered 200\n", tried.stderr
    assert receiver.events()[0]["type"] == "reproq.test"
    refused = dispatch("sinks", "test", "shop", REPROQ_SINK_SECRET_SHOP=secret)
    assert refused.returncode == 1 and "--allow-private" in refused.stderr
    assert dispatch("sinks", "test", "shop").returncode == 1
    listed = dispatch("sinks", "list")
    assert "shop" in listed.stdout and "token" not in listed.stdout
    row = json.loads(dispatch("sinks", "list", "--json").stdout)
    assert row["type_prefixes"] == ["shop."] and row["url"].endswith("/token")
    assert dispatch("sinks", "disable", "shop").stdout == "disabled\n"
    assert "disabled: by hand" in dispatch("sinks", "list").stdout
    assert dispatch("sinks", "enable", "shop").stdout == "enabled\n"
    assert dispatch("sinks", "drop", "shop").stdout == "dropped\n"
    gone = dispatch("sinks", "drop", "shop")
    assert gone.returncode == 1 and "no sink is called shop" in gone.stderr
    bad = dispatch("sinks", "put", "shop", "https://user:hunter2@a")
    assert bad.returncode == 2 and "hunter2" not in bad.stderr


def test_what_the_database_refuses_comes_with_its_next_step(office: Office, dispatch: Dispatch) -> None:
    done = dispatch("sinks", "put", "my-shop", "https://example.com/")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert 'lower-case letters, digits and "_"' in done.stderr
    assert "reproq dispatch sinks list" in dispatch("replay", "nobody").stderr


def test_an_operator_sees_what_is_parked_and_replays_it(office: Office, dispatch: Dispatch) -> None:
    receiver = office.receiver(lambda _request: Answer(404))
    office.sink("shop", receiver.url())
    event_id = office.publish(subject="order/1")
    office.deliver().wait_event("delivery_parked", event_id=event_id)
    assert event_id in dispatch("parked").stdout
    row = json.loads(dispatch("parked", "shop", "--json").stdout)
    assert (row["event_id"], row["subject"], row["last_error"]) == (event_id, "order/1", "answered 404")
    receiver.rule = lambda _request: Answer(200)
    assert dispatch("replay", "shop").stdout == "1 to deliver\n"
    office.deliver()
    assert dispatch("parked").stdout == "nothing is parked\n"
    assert dispatch("replay", "shop", "--event", event_id).stdout == "1 to deliver\n"
    assert dispatch("replay", "shop", "--since", "no time").returncode == 2
    assert dispatch("replay", "nobody").returncode == 2
    denied = dispatch("parked", REPROQ_DATABASE_URL=office.dsn)
    assert denied.returncode == 2 and "administrator" in denied.stderr
