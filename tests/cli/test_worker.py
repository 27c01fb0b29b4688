"""The worker command from outside: what it does before the runner takes over, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.processes import running
from tests.conftest import Database

ROOT = Path(__file__).parents[2]
PATIENCE_S = 40


class Process:
    """A worker, its log and its output, read as they come."""

    def __init__(self, folder: Path, arguments: list[str], environ: dict[str, str]) -> None:
        clean = {name: value for name, value in os.environ.items() if "DATABASE_URL" not in name}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cmd.worker", *arguments],
            cwd=ROOT,
            env=clean | {"PYTHONPATH": str(folder)} | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        assert self.process.stdout
        assert self.process.stderr
        for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            threading.Thread(target=lambda s=stream, to=lines: to.extend(s), daemon=True).start()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.err) if line.startswith("{")]

    def wait_for(self, event: str, count: int = 1) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def seen() -> bool:
            found[:] = [line for line in self.events() if line["event"] == event]
            assert self.process.poll() is None or len(found) >= count, "".join(self.err)
            return len(found) >= count

        wait_until(seen)
        return found[-1]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    begun: list[Process] = []

    def start_it(*arguments: str, **environ: str) -> Process:
        begun.append(Process(tmp_path, list(arguments), environ))
        return begun[-1]

    yield start_it
    for worker in begun:
        worker.process.kill()
        worker.process.wait()
        for stream in (worker.process.stdout, worker.process.stderr):
            assert stream
            stream.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Door:
    """A port that leads to the server once it is open, as a server that starts late looks like."""

    def __init__(self, port: int, target: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._target = target
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        for one in self._open:
            one.close()


def test_a_late_database_is_waited_for_and_the_work_begins_when_it_comes(
    start: Callable[..., Process], database: Database
) -> None:
    port = free_port()
    dsn = database.worker_dsn.replace(f":{database.server.port}/", f":{port}/")
    worker = start("--database-url", dsn)
    line = worker.wait_for("database_late")
    assert "waiting for the database" in line["message"]
    password = dsn.split(":")[2].split("@")[0]
    door = Door(port, database.server.port)
    try:
        worker.wait_for("worker_started")
        assert worker.stop() == 0
    finally:
        door.close()
    assert password not in "".join(worker.err + worker.out)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_waits_for_its_database_stops_at_once(
    start: Callable[..., Process], number: signal.Signals
) -> None:
    worker = start("--database-url", f"postgresql://u:canary@127.0.0.1:{free_port()}/x")
    worker.wait_for("database_late")
    assert worker.stop(number) == 0
    assert worker.events()[-1]["event"] == "worker_stopped"
    assert "canary" not in "".join(worker.err)


def test_a_login_that_is_too_mighty_is_warned_about(start: Callable[..., Process], database: Database) -> None:
    worker = start("--database-url", database.dsn)
    assert "is a superuser" in worker.wait_for("login_too_mighty")["message"]
    worker.wait_for("worker_started")
    assert worker.stop() == 0


def test_a_login_that_is_only_a_worker_is_not_warned_about(start: Callable[..., Process], database: Database) -> None:
    worker = start(REPROQ_DATABASE_URL=database.worker_dsn)
    worker.wait_for("worker_started")
    assert worker.stop() == 0
    assert "login_too_mighty" not in "".join(worker.err)


def test_the_parent_never_imports_the_app(start: Callable[..., Process], database: Database, tmp_path: Path) -> None:
    (tmp_path / "app_of_the_test.py").write_text(
        "import os\nfrom reproq import task\n"
        f"open({str(tmp_path)!r} + '/imported-by-' + str(os.getpid()), 'w').close()\n"
        "@task('app.pid')\ndef pid(payload): return os.getpid()\n"
    )
    (task_id,) = database.execute("select queues.enqueue('app.pid')")[0]
    worker = start("--database-url", database.worker_dsn, "--app", "app_of_the_test", "--until-empty")
    assert worker.process.wait(PATIENCE_S) == 0, "".join(worker.err)
    ((child,),) = database.execute("select result_json from queues.task_runs where id = %s", task_id)
    importers = {int(path.name.rpartition("-")[2]) for path in tmp_path.glob("imported-by-*")}
    assert child in importers
    assert worker.process.pid not in importers


def addresses(worker: Process) -> tuple[str, str]:
    wait_until(lambda: len(worker.out) >= 3 or worker.process.poll() is not None)
    text = "".join(worker.out)
    assert len(worker.out) >= 3, "".join(worker.err)
    return text.split("psql '")[1].split("'")[0], text.split("REPROQ_DATABASE_URL='")[1].split("'")[0]


def test_the_embedded_server_is_introduced_keeps_its_data_and_leaves_nothing_running(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    worker = start("--embedded-dir", str(folder))
    admin, app = addresses(worker)
    with psycopg.connect(app) as connection:
        connection.execute("select queues.enqueue('kept.one', scheduled_at => now() + interval '1 hour')")
    worker.wait_for("worker_started")
    assert worker.stop() == 0
    assert [command for _pid, command, _environment in running() if str(folder) in command] == []
    log = "".join(worker.err)
    assert all(dsn.split(":")[2].split("@")[0] not in log for dsn in (admin, app))
    again = start("--embedded-dir", str(folder))
    admin, _app = addresses(again)
    with psycopg.connect(admin) as connection:
        assert connection.execute("select task_type from queues.task_runs").fetchall() == [("kept.one",)]
    again.wait_for("worker_started")
    assert again.stop(signal.SIGINT) == 0


def test_an_embedded_server_that_is_killed_is_started_again_and_work_goes_on(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    (tmp_path / "kept_tasks.py").write_text("from reproq import task\n@task('one')\ndef one(payload): return 1\n")
    worker = start("--embedded-dir", str(folder), "--app", "kept_tasks")
    _admin, app = addresses(worker)
    worker.wait_for("worker_started")
    with psycopg.connect(app) as connection:
        task = connection.execute("select queues.enqueue('one', scheduled_at => now() + '2s')").fetchone()
    assert task
    os.kill(int((folder / "data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    worker.wait_for("embedded_restarted")
    with reachable(app) as connection:
        seen = "select status from queues.task_status(%s)"
        wait_until(lambda: connection.execute(seen, task).fetchone() == ("SUCCESSFUL",))
    assert worker.stop() == 0
    assert [command for _pid, command, _environment in running() if str(folder) in command] == []


def reachable(dsn: str) -> psycopg.Connection:
    found: list[psycopg.Connection] = []

    def reached() -> bool:
        try:
            found.append(psycopg.connect(dsn, autocommit=True))
        except psycopg.OperationalError:
            return False
        return True

    wait_until(reached)
    return found[0]
