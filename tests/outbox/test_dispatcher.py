"""The program: how it ends, what it refuses, what it does while the database is away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from reproq.config import Settings, child_environ, secrets
from tests.outbox.office import Office
from tests.outbox.receiver import Answer
from tests.worker.harness import ROOT, wait_until
from tests.worker.proxy import Proxy


def test_a_drain_finishes_what_is_under_way_and_gives_the_rest_back(office: Office) -> None:
    go = threading.Event()
    receiver = office.receiver(lambda _request: Answer(wait=go))
    office.sink("shop", receiver.url())
    for n in range(20):
        office.publish(subject="one", data=n)
    dispatcher = office.dispatcher()
    receiver.wait_for(1)
    dispatcher.send(signal.SIGTERM)
    dispatcher.wait_event("drain_started")
    go.set()
    assert dispatcher.status() == 0
    assert len(receiver.requests) == 1
    state = "select state, leased_until is not null, attempts, count(*) from queues.outbox_delivery group by 1, 2, 3"
    assert sorted(office.sql(state)) == [("delivered", False, 1, 1), ("waiting", False, 0, 19)]


def test_a_second_signal_ends_at_once_and_leaves_the_rest_to_its_lease(office: Office) -> None:
    go = threading.Event()
    receiver = office.receiver(lambda _request: Answer(wait=go))
    office.sink("shop", receiver.url(), timeout="60 s")
    event_id = office.publish()
    dispatcher = office.dispatcher()
    receiver.wait_for(1)
    dispatcher.send(signal.SIGTERM)
    dispatcher.wait_event("drain_started")
    dispatcher.send(signal.SIGTERM)
    assert dispatcher.status() == 1
    dispatcher.wait_event("drain_forced", events=1)
    go.set()
    assert office.one("select leased_until > now() from queues.outbox_delivery")
    office.sql("update queues.outbox_delivery set next_at = now(), leased_until = now()")
    office.deliver()
    assert [event["id"] for event in receiver.events()] == [event_id] * 2


def test_a_database_that_goes_away_is_waited_for_and_what_was_answered_meanwhile_is_told(office: Office) -> None:
    proxy = Proxy(office.database)
    go = threading.Event()
    receiver = office.receiver(lambda _request: Answer(wait=go))
    office.sink("shop", receiver.url())
    event_id = office.publish()
    port = office.database.server.port
    dispatcher = office.dispatcher(dsn=office.dsn.replace(f":{port}/", f":{proxy.port}/"))
    receiver.wait_for(1)
    proxy.refusing = True
    proxy.cut()
    go.set()
    dispatcher.wait_event("database_lost")
    proxy.refusing = False
    dispatcher.wait_event("database_back")
    office.wait_state("delivered")
    assert dispatcher.stop() == 0
    proxy.close()
    assert [event["id"] for event in receiver.events()] == [event_id]


def dispatch(office: Office, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("REPROQ_")}
    return subprocess.run(
        [sys.executable, "-m", "reproq", "dispatch", *arguments], cwd=ROOT, text=True, check=False, timeout=60,
        capture_output=True, env=clean | {"REPROQ_DATABASE_URL": office.database.dsn} | environ,
    )  # fmt: skip


def test_a_login_without_the_role_and_a_wrong_password_are_refused(office: Office) -> None:
    worker = dispatch(office, REPROQ_DATABASE_URL=office.database.worker_dsn)
    assert worker.returncode == 2 and "permission denied" in worker.stderr
    nobody = dispatch(office, REPROQ_DATABASE_URL=office.database.app_dsn)
    assert nobody.returncode == 2 and "GRANT reproq_dispatcher" in nobody.stderr
    wrong = dispatch(office, REPROQ_DATABASE_URL=office.dsn.replace("pw-of-dispatch", "wrong"))
    assert wrong.returncode == 2 and "Traceback" not in wrong.stderr


def test_a_sink_that_is_gone_is_disabled(office: Office) -> None:
    receiver = office.receiver(lambda _request: Answer(410))
    office.sink("shop", receiver.url())
    office.publish()
    dispatcher = office.deliver()
    dispatcher.wait_event("sink_gone", sink="shop")
    assert office.sql("select enabled, disabled_reason from queues.sinks") == [(False, "it answered 410 Gone")]


def test_a_dispatcher_for_some_sinks_leaves_the_others_alone(office: Office) -> None:
    one, two = office.receiver(), office.receiver()
    office.sink("shop", one.url())
    office.sink("other", two.url(), signed=False)
    office.publish()
    office.deliver("--sink", "other")
    assert (len(one.requests), len(two.requests)) == (0, 1)


def test_a_sink_that_is_not_there_is_named_and_a_script_fails(office: Office) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url())
    office.publish()
    dispatcher = office.dispatcher("--until-empty", "--sink", "shop", "--sink", "shpo")
    assert dispatcher.status() == 1
    assert "shpo" in dispatcher.wait_event("sink_unusable")["message"]
    assert len(receiver.requests) == 1


def test_several_dispatchers_share_the_work(office: Office) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url())
    dispatchers = [office.dispatcher() for _ in range(2)]
    for dispatcher in dispatchers:
        dispatcher.wait_event("dispatcher_started")
    for n in range(200):
        office.publish(subject=f"s{n % 7}", data=n)
    office.wait_state("delivered", 200)
    assert [dispatcher.stop() for dispatcher in dispatchers] == [0, 0]
    assert len(receiver.requests) == 200


@pytest.mark.parametrize("way", ["asked", "killed"])
def test_nothing_of_a_dispatcher_stays(office: Office, way: str) -> None:
    dispatcher = office.dispatcher()
    dispatcher.wait_event("dispatcher_started")
    assert dispatcher.stop(signal.SIGINT if way == "asked" else signal.SIGKILL) == (0 if way == "asked" else -9)
    assert dispatcher.leftovers() == []
    session = "select from pg_stat_activity where usename = %s"
    wait_until(lambda: not office.sql(session, office.login), "its session to end")


def test_the_secret_of_a_sink_is_kept_from_tasks() -> None:
    environ = {
        "REPROQ_SINK_SECRET_SHOP": "whsec_one whsec_two",
        "REPROQ_SINK_SECRET_MAIL_FILE": "/run/x",
        "PATH": "/bin",
    }
    assert set(child_environ(environ, Settings())) == {"PATH", "REPROQ_WITHHELD"}
    assert {"whsec_one", "whsec_two"} <= secrets(environ, Settings())
