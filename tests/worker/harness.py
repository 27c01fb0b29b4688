"""A worker as its user runs it: a process with flags, an app module, JSON lines on stderr, rows in a database.

Everything here waits for a condition with a deadline. The deadlines are long, because the machine may be busy; what a
test promises about time it measures itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.conftest import Database

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
MARK = "WORKER_TEST_RUN"
FINAL = ("SUCCESSFUL", "FAILED", "CANCELLED")
_HEAD = "import os, signal, subprocess, sys, time\nfrom reproq import Context, Fail, Retry, task\n"

Value = TypeVar("Value")


def wait_until(
    condition: Callable[[], Value],
    what: object = "the condition",
    patience_s: float = PATIENCE_S,
    every_s: float = 0.01,
) -> Value:
    """Ask until the answer is truthy, and return it."""
    deadline = time.monotonic() + patience_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {patience_s:g} s in vain for {what() if callable(what) else what}"
        time.sleep(every_s)
    return answer


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    state: str
    command: str
    born: int
    """In ticks since the boot: a long run meets its own process numbers again, borne by others."""

    @property
    def alive(self) -> bool:
        return self.state not in "ZX"

    def file(self, name: str) -> bytes:
        try:
            return Path(f"/proc/{self.pid}/{name}").read_bytes()
        except OSError:
            return b""


def processes() -> dict[int, Process]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it has just ended
            continue
        found[int(folder.name)] = Process(int(folder.name), int(fields[1]), fields[0], command, int(fields[19]))
    return found


def is_alive(pid: int) -> bool:
    process = processes().get(pid)
    return process is not None and process.alive


def marked(run: str) -> list[Process]:
    """Live processes that inherited a run's mark, whatever session or parent they have now."""
    entry = f"{MARK}={run}".encode()
    return [p for p in processes().values() if p.alive and entry in p.file("environ").split(b"\0")]


class Worker:
    """`python -m cmd.worker` (or another long-lived program of ours), its log and its processes."""

    def __init__(
        self, folder: Path, number: int, arguments: list[str], environ: dict[str, str], module: str = "cmd.worker"
    ) -> None:
        clean = {name: value for name, value in os.environ.items() if not _is_ours(name)}
        self.run = uuid.uuid4().hex
        self.err = folder / f"worker{number}.err"
        self.out = folder / f"worker{number}.out"
        with self.err.open("wb") as err, self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=clean | {"PYTHONPATH": str(folder), MARK: self.run} | environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._read = 0
        self._events: list[dict[str, Any]] = []
        self.known: dict[int, int] = {}

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.err.read_text(errors="replace")

    def events(self, name: str | None = None, **fields: object) -> list[dict[str, Any]]:
        """The lines of the log so far: those with this event name and these fields."""
        with self.err.open("rb") as file:
            file.seek(self._read)
            *lines, _rest = file.read().split(b"\n")
        self._read += sum(len(line) + 1 for line in lines)
        self._events += [json.loads(line) for line in lines if line.startswith(b"{")]
        return [e for e in self._events if name in (None, e["event"]) and fields.items() <= e.items()]

    def wait_event(self, name: str, count: int = 1, **fields: object) -> dict[str, Any]:
        """The count-th line of this event."""

        def seen() -> bool:
            over = self.process.poll() is not None
            found = len(self.events(name, **fields)) >= count
            assert found or not over, f"the worker ended without {name} {fields}: {self.log}"
            return found

        wait_until(seen, lambda: f"{count} × {name} {fields} in {self.log}")
        return self.events(name, **fields)[count - 1]

    def ready(self) -> Worker:
        self.wait_event("worker_started")
        return self

    def status(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for its end."""
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker is still there after {patience_s:g} s: {self.log}") from None

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.send(number)
        return self.status()

    def family(self) -> list[Process]:
        """Its live descendants, itself not included."""
        found, everyone = [], processes()
        parents = {self.pid}
        while parents:
            level = [p for p in everyone.values() if p.parent in parents]
            found += level
            parents = {p.pid for p in level}
        self.known |= {p.pid: p.born for p in found}
        return [p for p in found if p.alive]

    def guard(self) -> Process:
        (guard,) = (p for p in self.family() if p.parent == self.pid)
        return guard

    def children(self) -> list[Process]:
        """What the guard has started: the children of the pools."""
        guard = self.guard().pid
        return [p for p in self.family() if p.parent == guard]

    def end(self) -> None:
        """Whatever state it is in, nothing of it stays."""
        left = [p.pid for p in self.family()] if self.process.poll() is None else []
        for pid in (self.pid, *left):
            _signal(pid, signal.SIGCONT)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def leftovers(self) -> list[Process]:
        here = processes()
        known = [p for p in here.values() if p.alive and self.known.get(p.pid) == p.born]
        return known + [p for p in marked(self.run) if p not in known]


def _is_ours(name: str) -> bool:
    return name.startswith(("REPROQ_", "WORKER_")) or name in ("DATABASE_URL", "POLL_INTERVAL", "PGPASSWORD")


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class House:
    """One database, a folder for app modules and marks, and the workers of a test."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.workers: list[Worker] = []
        self._connect()

    def _connect(self) -> None:
        self._admin: Any = self.database.connect("admin")
        self._app: Any = self.database.connect("app")
        watch: Any = self.database.connect("admin")
        watch.row_factory = dict_row
        self._watch: Any = watch

    def reconnect(self) -> bool:
        """After the server was away; False: it still is."""
        try:
            self._connect()
        except psycopg.OperationalError:
            return False
        return True

    # -- the app and its workers

    def app(self, source: str, name: str = "app") -> None:
        (self.folder / f"{name}.py").write_text(_HEAD + f"HERE = {str(self.folder)!r}\n" + source)

    def config(self, text: str) -> str:
        path = self.folder / "reproq.toml"
        path.write_text(text)
        return str(path)

    def worker(self, *arguments: str, dsn: str | None = None, **environ: str) -> Worker:
        """One child, no system children, schema as it is; later flags win over these."""
        own = {"REPROQ_DATABASE_URL": dsn or self.database.worker_dsn, "REPROQ_PROCESSES": "1"}
        own |= {"REPROQ_SYSTEM_PROCESSES": "0", "REPROQ_NO_MIGRATE": "true"}
        if (self.folder / "app.py").exists():
            own["REPROQ_APP"] = "app"
        self.workers.append(Worker(self.folder, len(self.workers), list(arguments), own | environ))
        return self.workers[-1]

    def mark(self, name: str) -> Path:
        """A file by which a task and its test speak to each other."""
        return self.folder / name

    def wait_mark(self, name: str) -> str:
        path = self.mark(name)
        wait_until(lambda: path.exists() and path.stat().st_size > 0, lambda: f"the mark {name}: {self.story()}")
        return path.read_text()

    # -- tasks

    def enqueue(self, task_type: str, payload: dict[str, Any] | None = None, **more: object) -> int:
        names = "".join(f", {name} => %s" for name in more)
        statement = f"select queues.enqueue(%s, %s{names})"
        row = self._app.execute(statement, (task_type, Jsonb(payload or {}), *more.values())).fetchone()
        assert row
        return int(row[0])

    def enqueue_many(self, task_type: str, payloads: list[dict[str, Any]], **more: object) -> list[int]:
        names = "".join(f", {name} => %s" for name in more)
        statement = f"select queues.enqueue_many(%s, %s{names})"
        parameters = (task_type, [Jsonb(p) for p in payloads], *more.values())
        row = self._app.execute(statement, parameters).fetchone()
        assert row
        return list(row[0])

    def function(self, name: str, body: str) -> str:
        """A database function (payload jsonb) returns jsonb that worker and app may run; answers its whole name."""
        self.sql("create schema if not exists shop; grant usage on schema shop to worker_service_user, reproq_app")
        head = f"create or replace function shop.{name}(payload jsonb) returns jsonb language plpgsql as $f$ "
        self.sql(head + body + " $f$")
        self.sql(f"grant execute on function shop.{name}(jsonb) to worker_service_user, reproq_app")
        self.sql("select internal.allow_schema('shop')")
        return f"shop.{name}"

    def known(self, task_type: str) -> None:
        """Wait until a worker has told the database what its children said of this type."""
        known = "select 1 from queues.task_types where task_type = %s"
        wait_until(lambda: self.sql(known, task_type), lambda: f"{task_type} to be known: {self.story()}")

    def asleep(self, count: int = 1) -> None:
        """Wait until so many workers have found nothing to do and lain down."""
        marks = "select 1 from queues.sleeper where until > clock_timestamp()"
        wait_until(lambda: len(self.sql(marks)) >= count, lambda: f"{count} sleeping workers: {self.story()}")

    def cancel(self, task_id: int, reason: str = "not wanted") -> str:
        row = self._app.execute("select queues.cancel(%s, %s)", (task_id, reason)).fetchone()
        assert row
        return str(row[0])

    def sql(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        cursor = self._admin.execute(statement, parameters or None)
        return list(cursor.fetchall()) if cursor.description is not None else []

    def one(self, statement: str, *parameters: object) -> Any:
        return self.sql(statement, *parameters)[0][0]

    def row(self, task_id: int) -> dict[str, Any]:
        row = self._watch.execute("select * from queues.task_runs where id = %s", (task_id,)).fetchone()
        assert row is not None
        return dict(row)

    def wait_row(self, task_id: int, condition: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        def fits() -> dict[str, Any] | None:
            row = self.row(task_id)
            return row if condition(row) else None

        found = wait_until(fits, lambda: f"task {task_id} to be {what}; it is {self.row(task_id)}: {self.story()}")
        assert found is not None
        return found

    def wait_status(self, task_id: int, *statuses: str) -> dict[str, Any]:
        return self.wait_row(task_id, lambda row: row["status"] in statuses, " or ".join(statuses))

    def final(self, task_id: int) -> dict[str, Any]:
        """The row once nothing more will happen to it."""
        return self.wait_row(
            task_id, lambda row: row["status"] in FINAL and row["leased_until"] is None, "in a final state"
        )

    def finals(self, task_ids: list[int]) -> list[dict[str, Any]]:
        def over() -> bool:
            statement = "select count(*) from queues.task_runs where id = any (%s) and status::text = any (%s)"
            return bool(self.one(statement, task_ids, list(FINAL)) == len(task_ids))

        wait_until(over, lambda: f"the end of {len(task_ids)} tasks: {self.story()}", every_s=0.03)
        return [self.final(task_id) for task_id in task_ids]

    def history(self, task_id: int) -> list[dict[str, Any]]:
        """Its audit events, oldest first."""
        cursor = self._watch.execute("select * from queues.task_events where task_id = %s order by id", (task_id,))
        return list(cursor.fetchall())

    def detail(self, task_id: int, event: str) -> dict[str, Any]:
        """The detail of its last audit event of this name."""
        found = [each["detail"] for each in self.history(task_id) if each["event"] == event]
        assert found, f"task {task_id} has no event {event}: {self.history(task_id)}"
        return dict(found[-1])

    def leased(self) -> int:
        return int(self.one("select count(*) from queues.task_runs where leased_until is not null"))

    def story(self) -> str:
        return "\n".join(worker.log for worker in self.workers)

    def close(self) -> None:
        """End the workers; nothing that they started may stay behind."""
        for worker in self.workers:
            worker.end()
        for worker in self.workers:
            try:
                wait_until(lambda: not worker.leftovers(), lambda: f"the end of {worker.leftovers()}", 15)  # noqa: B023
            finally:
                for process in worker.leftovers():
                    _signal(process.pid, signal.SIGKILL)
