"""The worker's unit on a real systemd: ready, drained, restarted, and left alone, as the operator's guide says."""

from __future__ import annotations

import time

from tests.units.conftest import Site
from tests.worker.harness import wait_until
from tests.worker.proxy import Proxy

EMAIL = "reproq-worker@email.service"
BULK = "reproq-worker@bulk-mail.service"


def test_start_returns_when_children_are_up_and_the_database_has_answered(site: Site) -> None:
    site.start(EMAIL)
    machine = site.machine
    assert machine.is_(EMAIL, ActiveState="active", SubState="running", NRestarts="0")
    assert machine.events(EMAIL, "worker_started")[-1]["pid"] == machine.pid(EMAIL)
    assert len(machine.processes(EMAIL)) == 4, "the worker, its guard, one child of the app, one of ours"
    site.wait_status(EMAIL, "email: 0 running, 0 claimed")
    mine, other = site.enqueue("unit.greet", "email"), site.enqueue("unit.greet", "sms")
    assert site.ended(mine)["result_json"]["queue"] == "email"
    assert site.row(other)["status"] == "PENDING"


def test_two_instances_have_queues_and_settings_of_their_own(site: Site) -> None:
    site.environ("worker@bulk-mail.env", REPROQ_PROCESSES="2")
    site.start(EMAIL, BULK)
    assert [len(site.machine.processes(unit)) for unit in (EMAIL, BULK)] == [4, 5]
    ends = [site.ended(site.enqueue("unit.greet", queue)) for queue in ("email", "bulk-mail")]
    assert [end["result_json"]["queue"] for end in ends] == ["email", "bulk-mail"]
    assert 0 not in {end["result_json"]["uid"] for end in ends}


def test_a_stop_drains_and_lets_the_running_task_finish(site: Site) -> None:
    site.start(EMAIL)
    task = site.enqueue("unit.gate", "email", gate="drain")
    site.running(task)
    site.machine.systemctl("stop", "--no-block", EMAIL)
    site.wait_status(EMAIL, "1 running, draining")
    late = site.enqueue("unit.greet", "email")
    site.open("drain")
    site.wait(EMAIL, ActiveState="inactive", Result="success", ExecMainStatus="0")
    assert [site.row(task)[name] for name in ("status", "attempt_count")] == ["SUCCESSFUL", 1]
    assert site.row(late)["status"] == "PENDING"


def test_a_drain_that_may_take_longer_than_the_units_stop_timeout_is_not_cut_short(site: Site) -> None:
    site.environ("worker@email.env", REPROQ_DRAIN_TIMEOUT="1h")
    site.change(EMAIL, "TimeoutStopSec=1s")
    site.start(EMAIL)
    task = site.enqueue("unit.gate", "email", gate="long")
    site.running(task)
    began = time.monotonic()
    site.machine.systemctl("stop", "--no-block", EMAIL)
    wait_until(lambda: time.monotonic() > began + 3, "three times the stop time-out")
    assert site.machine.is_(EMAIL, ActiveState="deactivating")
    site.open("long")
    site.wait(EMAIL, ActiveState="inactive", Result="success")
    assert site.row(task)["status"] == "SUCCESSFUL"


def test_a_task_that_outlives_the_drain_is_killed_and_goes_back(site: Site) -> None:
    site.environ("worker@email.env", REPROQ_DRAIN_TIMEOUT="200ms", REPROQ_KILL_GRACE="200ms")
    site.start(EMAIL)
    task = site.enqueue("unit.stubborn", "email")
    site.running(task)
    site.machine.systemctl("stop", EMAIL)
    assert site.machine.is_(EMAIL, ActiveState="inactive", Result="success", ExecMainStatus="0")
    row = site.row(task)
    assert [row[name] for name in ("status", "attempt_count", "give_backs")] == ["PENDING", 0, 1]


def hold_the_loop(site: Site, unit: str) -> None:
    site.machine.systemctl("kill", "--kill-who=main", "--signal=USR2", unit)


def test_a_stop_of_a_stuck_worker_ends_at_the_stop_timeout_and_leaves_nothing(site: Site) -> None:
    site.change(EMAIL, "TimeoutStopSec=1s", "WatchdogSec=0")
    site.start(EMAIL)
    site.running(site.enqueue("unit.gate", "email", gate="never"))
    family = site.machine.processes(EMAIL)
    hold_the_loop(site, EMAIL)
    site.machine.systemctl("stop", EMAIL)
    assert site.machine.is_(EMAIL, ActiveState="failed", Result="timeout")
    assert site.machine.processes(EMAIL) == []
    assert len(family) == 4


def test_the_watchdog_restarts_a_worker_whose_loop_is_stuck(site: Site) -> None:
    site.change(EMAIL, "WatchdogSec=3s", "RestartSec=100ms")
    site.start(EMAIL)
    first = site.machine.pid(EMAIL)
    hold_the_loop(site, EMAIL)
    site.wait(EMAIL, NRestarts="1", ActiveState="active")
    assert "Watchdog timeout" in site.machine.log(EMAIL)
    assert site.machine.pid(EMAIL) != first
    assert site.ended(site.enqueue("unit.greet", "email"))["status"] == "SUCCESSFUL"


def test_the_watchdog_leaves_a_worker_alone_that_is_only_busy(site: Site) -> None:
    site.change(EMAIL, "WatchdogSec=3s")
    site.start(EMAIL)
    began = time.monotonic()
    task = site.enqueue("unit.gate", "email", gate="busy")
    wait_until(lambda: time.monotonic() > began + 6, "twice the watchdog's patience")
    assert site.machine.is_(EMAIL, ActiveState="active", NRestarts="0")
    site.open("busy")
    assert site.ended(task)["status"] == "SUCCESSFUL"


def test_a_killed_worker_takes_its_children_along_and_is_started_again(site: Site) -> None:
    site.change(EMAIL, "RestartSec=100ms")
    site.start(EMAIL)
    site.machine.systemctl("kill", "--kill-who=main", "--signal=KILL", EMAIL)
    site.wait(EMAIL, NRestarts="1", ActiveState="active")
    assert len(site.machine.processes(EMAIL)) == 4
    assert site.ended(site.enqueue("unit.greet", "email"))["status"] == "SUCCESSFUL"


def test_what_a_person_must_mend_is_not_tried_again(site: Site) -> None:
    site.machine.write("/etc/reproq/credentials/worker_url", site.database.worker_dsn.replace("@", "x@"), "600")
    site.machine.systemctl("start", EMAIL, check=False)
    assert site.machine.is_(EMAIL, ActiveState="failed", Result="exit-code", ExecMainStatus="2", NRestarts="0")
    assert "reproq: error: database: " in site.machine.log(EMAIL)


def test_without_an_address_it_is_not_even_started(site: Site) -> None:
    site.machine.run("rm", "/etc/reproq/credentials/worker_url")
    refused = site.machine.run("systemctl", "start", EMAIL, check=False)
    assert "Assertion failed" in refused.stderr
    assert site.machine.is_(EMAIL, ActiveState="inactive", AssertResult="no", NRestarts="0")


def test_a_worker_that_boots_before_its_database_waits_for_it_and_says_so(site: Site) -> None:
    proxy = Proxy(site.database)
    proxy.refusing = True
    try:
        site.machine.write("/etc/reproq/credentials/worker_url", proxy.dsn, "600")
        site.machine.systemctl("start", "--no-block", EMAIL)
        site.wait_status(EMAIL, "waiting for the database for")
        assert site.machine.is_(EMAIL, ActiveState="activating", NRestarts="0")
        proxy.refusing = False
        site.wait(EMAIL, ActiveState="active", NRestarts="0")
        assert site.ended(site.enqueue("unit.greet", "email"))["status"] == "SUCCESSFUL"
    finally:
        site.clear()
        proxy.close()


def test_the_status_says_when_the_database_is_away_and_the_worker_goes_on(site: Site) -> None:
    proxy = Proxy(site.database)
    try:
        site.machine.write("/etc/reproq/credentials/worker_url", proxy.dsn, "600")
        site.start(EMAIL)
        proxy.refusing = True
        proxy.cut()
        site.wait_status(EMAIL, "not ready: the database does not answer")
        proxy.refusing = False
        site.wait_status(EMAIL, "email: 0 running")
        assert site.machine.is_(EMAIL, ActiveState="active", NRestarts="0")
    finally:
        site.clear()
        proxy.close()


def test_a_worker_that_all_its_processes_were_told_to_end_is_started_again_and_nothing_is_lost(site: Site) -> None:
    """`systemctl kill` without --kill-who: what an operator in a hurry types."""
    site.change(EMAIL, "RestartSec=100ms")
    site.start(EMAIL)
    task = site.enqueue("unit.greet", "email")
    site.machine.systemctl("kill", EMAIL)
    site.wait(EMAIL, NRestarts="1", ActiveState="active")
    assert site.ended(task)["status"] == "SUCCESSFUL"
