from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Database
from tests.units.machine import HERE, Machine, NoSystemd, why_not, with_reproq
from tests.worker.harness import FINAL, wait_until

LOADED = f"""
install -D -m 644 {HERE}/app.py "$root/srv/app/units_app.py"
install -m 644 {HERE}/sitecustomize.py "$root/srv/app"
mkdir -p "$root/run/gates"
"""
COMMON = {
    "PYTHONPATH": "/srv/app",
    "REPROQ_APP": "units_app",
    "REPROQ_PROCESSES": "1",
    "REPROQ_SYSTEM_PROCESSES": "1",
    "REPROQ_HEARTBEAT": "500ms",
}


@pytest.fixture(scope="session")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One machine for all tests of a process; each finds it without instances."""
    if reason := why_not():
        pytest.skip(reason)
    try:
        machine = Machine(tmp_path_factory.mktemp("machine"), with_reproq() + LOADED)
    except NoSystemd as problem:
        pytest.skip(str(problem))
    yield machine
    machine.shut_down()


class Site:
    """An installation: the machine, a database, and what an operator writes into /etc."""

    def __init__(self, machine: Machine, database: Database) -> None:
        self.machine = machine
        self.database = database
        machine.write("/etc/reproq/credentials/worker_url", database.worker_dsn, "600")
        self.environ("reproq.env", **COMMON)

    def environ(self, name: str, **values: str) -> None:
        self.machine.write(f"/etc/reproq/{name}", "".join(f"{key}={value}\n" for key, value in values.items()))

    def change(self, unit: str, *lines: str) -> None:
        """As `systemctl edit` does."""
        self.machine.write(f"/run/systemd/system/{unit}.d/test.conf", "[Service]\n" + "\n".join(lines) + "\n")
        self.machine.systemctl("daemon-reload")

    def start(self, *units: str) -> None:
        done = self.machine.run("systemctl", "start", *units, check=False)
        assert done.returncode == 0, done.stderr + "".join(self.machine.log(unit) for unit in units)

    def open(self, gate: str) -> None:
        self.machine.run("touch", f"/run/gates/{gate}")

    def enqueue(self, task_type: str, queue: str, **payload: Any) -> int:
        ((task_id,),) = self.database.execute(
            "select queues.enqueue(%s, %s::jsonb, queue_name => %s)", task_type, json.dumps(payload), queue
        )
        return int(task_id)

    def row(self, task_id: int) -> dict[str, Any]:
        ((found,),) = self.database.execute("select to_jsonb(t) from queues.task_runs t where id = %s", task_id)
        return dict(found)

    def running(self, task_id: int) -> None:
        wait_until(lambda: self.row(task_id)["started_at"], f"the beginning of task {task_id}")

    def ended(self, task_id: int) -> dict[str, Any]:
        wait_until(lambda: self.row(task_id)["status"] in FINAL, lambda: f"the end of {self.row(task_id)}")
        return self.row(task_id)

    def wait(self, unit: str, **wanted: str) -> None:
        seen = lambda: f"{unit}: {wanted}, but {self.machine.show(unit, *wanted)}: {self.machine.log(unit)}"  # noqa: E731
        wait_until(lambda: self.machine.is_(unit, **wanted), seen, every_s=0.05)

    def wait_status(self, unit: str, text: str) -> None:
        seen = lambda: f"{text!r} in {self.machine.show(unit, 'StatusText')}: {self.machine.log(unit)}"  # noqa: E731
        wait_until(lambda: text in self.machine.show(unit, "StatusText")["StatusText"], seen, every_s=0.05)

    def clear(self) -> None:
        machine = self.machine
        units = "reproq-worker@*", "reproq-*.service"
        machine.systemctl("kill", "--signal=KILL", *units, check=False)
        machine.systemctl("stop", *units, check=False)
        machine.systemctl("reset-failed", *units, check=False)
        machine.run("sh", "-c", "rm -rf /run/systemd/system/reproq* /etc/reproq/* /run/gates/*")
        machine.run("install", "-d", "-m", "700", "/etc/reproq/credentials")
        machine.systemctl("daemon-reload")


@pytest.fixture
def site(booted: Machine, database: Database, tmp_path: Path) -> Iterator[Site]:
    site = Site(booted, database)
    yield site
    site.clear()
