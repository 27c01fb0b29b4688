"""What systemd hears from a runner: everything that is true in each message, and nothing from anybody but the loop."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from reproq.notify import notify, watchdog_s
from reproq.runner import herald as herald_file
from reproq.runner.health import Health
from reproq.runner.herald import Herald
from tests.runner.test_health import Clock, Pool


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    name = {"path": str(tmp_path / "notify"), "abstract": f"@reproq-test-{os.getpid()}"}[request.param]
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        sock.bind(name.replace("@", "\0"))
        yield sock


def heard(manager: socket.socket) -> list[list[str]]:
    messages = []
    while True:
        try:
            messages.append(manager.recv(4096).decode().splitlines())
        except BlockingIOError:
            return messages


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(herald_file, "time", SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(30.0, clock)


def test_a_message_arrives_at_a_path_and_at_an_abstract_socket(manager: socket.socket) -> None:
    notify("STATUS=waiting")
    assert heard(manager) == [["STATUS=waiting"]]


def test_without_a_manager_or_with_one_that_is_gone_or_does_not_listen_nothing_happens(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2000):  # its socket is full long before
        notify("STATUS=" + "x" * 2000)
    manager.close()
    notify("READY=1")
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")


def test_a_watchdog_of_another_process_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    assert watchdog_s() is None
    monkeypatch.setenv("WATCHDOG_USEC", "2500000")
    assert watchdog_s() == 2.5
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert watchdog_s() == 2.5
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert watchdog_s() is None


def test_ready_is_said_at_once_and_again_with_every_message(
    manager: socket.socket, health: Health, clock: Clock
) -> None:
    herald = Herald(health)
    herald.tell(False, "email: 0 running")
    assert heard(manager) == [["STATUS=not ready: the database does not answer"]]
    health.look([Pool()], guarded=True, database=True)
    herald.tell(True, "email: 0 running")
    herald.tell(True, "email: 1 running")
    assert heard(manager) == [["READY=1", "WATCHDOG=1", "STATUS=email: 0 running"]]
    clock.now += 1.1
    herald.tell(True, "email: 1 running")
    assert heard(manager) == [["READY=1", "WATCHDOG=1", "STATUS=email: 1 running"]]


def test_the_watchdog_is_fed_twice_as_often_as_it_must_be_when_nothing_changes(
    manager: socket.socket, health: Health, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "8000000")
    health.look([Pool()], guarded=True, database=True)
    herald = Herald(health)
    for _ in range(64):
        clock.now += 0.25
        health.turned_at = clock.now
        herald.tell(True, "email: 0 running")
    fed = [message for message in heard(manager) if "WATCHDOG=1" in message]
    assert 8 <= len(fed) <= 9


def test_a_drain_asks_for_more_time_as_long_as_it_goes_on(manager: socket.socket, health: Health, clock: Clock) -> None:
    health.look([Pool()], guarded=True, database=True)
    herald = Herald(health)
    herald.tell(True, "email: 2 running")
    health.draining = True
    herald.tell(True, "email: 2 running, draining")
    clock.now += 11
    health.turned_at = clock.now
    herald.tell(True, "email: 2 running, draining")
    longer = ["STOPPING=1", "EXTEND_TIMEOUT_USEC=30000000", "STATUS=email: 2 running, draining"]
    assert heard(manager)[1:] == [longer, longer]
