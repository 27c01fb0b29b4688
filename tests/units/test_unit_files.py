"""What the units say, asked from systemd itself; and what their hardening leaves possible."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.units.conftest import LOADED, Site
from tests.units.machine import UNITS, Machine, with_reproq
from tests.worker.harness import wait_until

FILES = sorted(path.name for path in UNITS.iterdir() if path.suffix in (".service", ".target"))
EMAIL = "reproq-worker@email.service"


def instance(name: str) -> str:
    return name.replace("@.", "@email.")


def verified(machine: Machine, name: str) -> str:
    """systemd-analyze ends with 0 whatever a unit says: what counts is that it says nothing."""
    done = machine.run("systemd-analyze", "verify", f"/etc/systemd/system/{name}", check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", FILES)
def test_systemd_has_nothing_to_say_about_a_unit(name: str, booted: Machine) -> None:
    assert verified(booted, instance(name)) == ""


def test_the_check_of_the_units_sees_a_key_that_is_wrong(booted: Machine) -> None:
    text = (UNITS / "reproq-worker@.service").read_text()
    booted.write("/etc/systemd/system/wrong@.service", text.replace("WatchdogSec", "WatchDogSec"))
    assert "WatchDogSec" in verified(booted, "wrong@email.service")


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".service")])
def test_no_service_is_more_exposed_than_it_needs_to_be(name: str, booted: Machine) -> None:
    done = booted.run("systemd-analyze", "security", "--no-pager", "--threshold=15", instance(name), check=False)
    assert done.returncode == 0, done.stdout


def test_a_worker_may_take_as_much_as_its_limits_say_and_another_by_an_operators_word(site: Site) -> None:
    limits = (UNITS / "limits.conf").read_text()
    site.machine.write("/run/systemd/system/reproq-worker@.service.d/limits.conf", limits)
    site.change("reproq-worker@sms.service", "CPUQuota=150%")
    names = ("CPUQuotaPerSecUSec", "TasksMax", "OOMPolicy", "LimitCORE")
    shown = site.machine.show(EMAIL, *names, "MemoryMax")
    assert {name: shown[name] for name in names} == {
        "CPUQuotaPerSecUSec": "4s", "TasksMax": "4096", "OOMPolicy": "continue", "LimitCORE": "0",
    }  # fmt: skip
    assert int(shown["MemoryMax"]) > 0
    assert site.machine.show("reproq-worker@sms.service", "CPUQuotaPerSecUSec") == {"CPUQuotaPerSecUSec": "1.500000s"}


def test_what_a_task_does_to_its_process_is_contained_under_the_units_hardening(site: Site) -> None:
    site.machine.write(
        "/etc/reproq/reproq.toml",
        '[[limits]]\nprefix = "big."\nmemory = "512MiB"\nfiles = 128\nprocesses = 100\nfile_size = "1MiB"\n',
    )
    site.environ("worker@email.env", REPROQ_CONFIG="/etc/reproq/reproq.toml")
    site.start(EMAIL)
    kinds = {"unit.killed": "killed", "unit.hangs": "timed_out", "unit.leaves": "exited", "big.eats": "raised"}
    tasks = {kind: site.enqueue(task_type, "email") for task_type, kind in kinds.items()}
    assert {kind: site.ended(task)["failure_kind"] for kind, task in tasks.items()} == {kind: kind for kind in tasks}
    wait_until(lambda: len(site.machine.processes(EMAIL)) == 5, "worker, guard and three pools: no leftover")
    function = site.enqueue("db_function", "email", db_function="comms.get_email_payload")
    wait_until(lambda: site.row(function)["last_error"], "what a child of ours says of a payload without a message")
    assert site.ended(site.enqueue("unit.greet", "email"))["status"] == "SUCCESSFUL"
    assert site.machine.is_(EMAIL, ActiveState="active", NRestarts="0")


def test_what_a_task_leaves_behind_ends_also_where_proc_hides_it(site: Site) -> None:
    drop_in = "/etc/systemd/system/reproq-worker@.service.d/hidden.conf"
    site.machine.write(drop_in, "[Service]\nProtectProc=invisible\n")
    site.machine.systemctl("daemon-reload")
    try:
        site.start(EMAIL)
        assert site.ended(site.enqueue("unit.leaves", "email"))["failure_kind"] == "exited"
        assert site.ended(site.enqueue("unit.greet", "email"))["status"] == "SUCCESSFUL"  # by the next child
        wait_until(lambda: len(site.machine.processes(EMAIL)) == 4, "worker, guard and two pools: no leftover")
    finally:
        site.machine.write(drop_in, "")
        site.machine.systemctl("daemon-reload")


def test_a_task_reaches_little_of_the_machine(site: Site) -> None:
    site.start(EMAIL)
    lines = {
        "open('/opt/reproq/mine', 'w')": "OSError",
        "open('/etc/reproq/credentials/worker_url').read()": "PermissionError",
        "open('/proc/1/environ').read()": "PermissionError",
        "__import__('socket').socket(17, 3)": "OSError",
        "open('/tmp/mine', 'w').write('mine')": "4",
        "open(os.environ['STATE_DIRECTORY'] + '/mine', 'w').write('mine')": "4",
    }
    said = site.ended(site.enqueue("unit.reaches", "email", lines=list(lines)))["result_json"]
    assert said == lines
    environ = site.ended(site.enqueue("unit.greet", "email"))["result_json"]["environ"]
    ours = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "CREDENTIALS_DIRECTORY", "REPROQ_DATABASE_URL_FILE")
    assert not set(ours) & set(environ)


def test_tasks_with_a_uid_of_their_own_reach_neither_the_credentials_nor_the_network(site: Site) -> None:
    site.machine.write(
        "/etc/reproq/reproq.toml",
        '[[limits]]\nprefix = "unit."\nuid = "20000-20009"\nnetwork = "none"\nchildren = 1\n',
    )
    site.environ("worker@email.env", REPROQ_CONFIG="/etc/reproq/reproq.toml")
    site.machine.write(
        "/run/systemd/system/reproq-worker@email.service.d/own-uids.conf", (UNITS / "own-uids.conf").read_text()
    )
    site.machine.systemctl("daemon-reload")
    site.start(EMAIL)
    lines = {
        "open('/run/credentials/reproq-worker@email.service/worker_url').read()": "PermissionError",
        f"__import__('socket').create_connection(('127.0.0.1', {site.database.server.port}))": "OSError",
        "20000 <= os.getuid() <= 20009": "True",
    }
    assert site.ended(site.enqueue("unit.reaches", "email", lines=list(lines)))["result_json"] == lines
    kinds = {"unit.killed": "killed", "unit.hangs": "timed_out", "unit.leaves": "exited"}
    tasks = {kind: site.enqueue(task_type, "email") for task_type, kind in kinds.items()}
    assert {kind: site.ended(task)["failure_kind"] for kind, task in tasks.items()} == {kind: kind for kind in tasks}
    site.machine.systemctl("stop", EMAIL)
    assert site.machine.is_(EMAIL, ActiveState="inactive", Result="success")


def test_the_schema_is_brought_up_to_date_before_the_first_worker_of_a_boot(site: Site) -> None:
    machine = site.machine
    site.database.execute("drop schema queues, internal, comms cascade")
    machine.systemctl("start", EMAIL, check=False)
    assert machine.is_(EMAIL, ActiveState="failed", ExecMainStatus="2")
    assert machine.is_("reproq-migrate.service", ConditionResult="no", ActiveState="inactive")
    machine.write("/etc/reproq/credentials/migrate_url", site.database.dsn, "600")
    site.start(EMAIL)
    assert machine.is_("reproq-migrate.service", ActiveState="active", SubState="exited", Result="success")
    assert site.ended(site.enqueue("unit.greet", "email"))["status"] == "SUCCESSFUL"
    first = machine.show("reproq-migrate.service", "InvocationID")
    machine.systemctl("restart", EMAIL)
    assert machine.show("reproq-migrate.service", "InvocationID") == first, "once a boot"


def test_stopping_and_restarting_the_target_reaches_every_instance(site: Site) -> None:
    bulk = "reproq-worker@bulk-mail.service"
    site.start("reproq.target", EMAIL, bulk)
    before = [site.machine.pid(unit) for unit in (EMAIL, bulk)]
    site.machine.systemctl("restart", "reproq.target")
    for unit in (EMAIL, bulk):
        site.wait(unit, ActiveState="active")
    assert not {site.machine.pid(unit) for unit in (EMAIL, bulk)} & set(before)
    site.machine.systemctl("stop", "reproq.target")
    for unit in (EMAIL, bulk):
        site.wait(unit, ActiveState="inactive", Result="success")


def test_what_is_enabled_runs_after_a_boot(site: Site, tmp_path: Path) -> None:
    enable = 'systemctl --root="$root" enable reproq-worker@email reproq-worker@bulk-mail'
    address = f'echo "{site.database.worker_dsn}" > "$root/etc/reproq/credentials/worker_url"'
    machine = Machine(tmp_path, "\n".join([with_reproq(), LOADED, address, enable]), unit="multi-user.target")
    try:
        for unit in (EMAIL, "reproq-worker@bulk-mail.service"):
            wait_until(partial(machine.is_, unit, ActiveState="active"), partial(machine.log, unit))
    finally:
        machine.shut_down()
