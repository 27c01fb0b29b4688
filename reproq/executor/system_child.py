"""The system child: runs `db_function` tasks, or sends email and SMS, over its own connection as the worker's role. It
loads no user code.

A function and its fenced finish are one statement and so one transaction (internal.run_task), finish last: a killed
child, a lost lease or a cancelled task leaves nothing of the function behind. Channel tasks: channel_tasks.py. The
address, and the keys of the providers if it sends, come in the first line of its standard input, never by argv or
environment.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from reproq.db.connect import Connection, connect, is_direct
from reproq.db.errors import Kind, classify, first_line
from reproq.executor import kernel
from reproq.executor.channel_tasks import ChannelTasks
from reproq.executor.child_wire import Wire
from reproq.executor.envelopes import to_json

_STATEMENTS = {
    "run_task": b"select internal.run_task($1, $2, $3, $4)::text",
    "begin_channel": b"select internal.begin_channel($1, $2, $3, $4, $5)::text",
    "channel_result": b"select pg_catalog.to_json(queues.channel_result($2, $3, $4, $1))::text",
    "channel_succeeded": b"select internal.channel_succeeded($1, $2, $3, $4, $5, $6)::text",
    "channel_failed": b"select internal.channel_failed($1, $2, $3, $4, $5, $6, $7)::text",
    "clean": b"select internal.clean_session()",
}
# glibc returns the memory of each task to the kernel and gets it back page by page, until it has seen a larger block
# come and go: then it keeps as much. That is 7 % of what a small function costs the server (docs/decisions/039).
_KEEP_MEMORY = b"select pg_catalog.length(pg_catalog.repeat('x', 2000000))"
_DONE = {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK}
_UNKNOWN_STATEMENT = "26000"
_PATIENCE_S = 5.0
_TRIES = 3


Answer = Callable[[dict[str, Any]], dict[str, Any]]


class LeaseGone(Exception):
    """The fence no longer held; everything was rolled back."""


def main() -> None:
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # the address is in our memory: no other process of this uid may look
    wire = Wire.take_over()
    settings = _read_settings(wire.source)
    session = Session(settings["dsn"])
    serves = _channels(session, settings) or {"db_function": lambda order: _run_function(session, order)}
    wire.send(f"{to_json({'v': 1, 'types': {name: {} for name in serves}, 'session': session.name})}\n".encode())
    while (order := wire.next()) is not None:
        answer = _answer(serves[order["task_type"]], order)
        wire.wait_until_log_is_read()
        wire.send(f"{to_json(answer)}\n".encode())
        wire.forget_cancels()
        session.clean()


class Session:
    """The connection, and another one when it is lost. It never ends the child: a task may be on its way to us.

    It speaks libpq without cursors: they would cost as much as the function's insert.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.name = f"reproq system child {uuid.uuid4()}"
        self._open()

    def ask(self, statement: str, *values: str, once: bool = False) -> Any:
        """The answer of one statement, a transaction of its own. Over a lost connection once more, unless it may be
        asked only `once`."""
        for _ in range(0 if once else _TRIES - 1):
            try:
                return self._ask(statement, values)
            except psycopg.Error as exc:
                forgotten = exc.sqlstate == _UNKNOWN_STATEMENT  # a function said DEALLOCATE ALL
                if not (self._connection.closed or classify(exc) is Kind.LATE or forgotten):
                    raise
                self._reopen()
        return self._ask(statement, values)

    def clean(self) -> None:
        """What a function leaves in its session isn't for the next one. Sent without waiting: the next statement asks
        whether it went well."""
        try:
            if "clean" in self._prepared:
                self._pgconn.send_query_prepared(self._prepared["clean"], [])
            else:
                self._pgconn.send_query(_STATEMENTS["clean"])
            self._cleaning = True
        except psycopg.OperationalError:
            self._reopen()

    def _finish_cleaning(self) -> None:
        self._cleaning = False
        answers = [result.status for result in iter(self._pgconn.get_result, None)]
        if not set(answers) <= _DONE:
            self._reopen()
        elif "clean" not in self._prepared:
            self._prepare("clean")

    def _ask(self, statement: str, texts: tuple[str, ...]) -> Any:
        if self._cleaning:
            self._finish_cleaning()
        values = [text.encode() for text in texts]
        if statement in self._prepared:
            result = self._pgconn.exec_prepared(self._prepared[statement], values)
        else:
            result = self._pgconn.exec_params(_STATEMENTS[statement], values)
            self._prepare(statement)
        if result.status == pq.ExecStatus.TUPLES_OK:
            return json.loads(result.get_value(0, 0) or b"null")
        if self._pgconn.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError(self._pgconn.error_message.decode(errors="replace"))
        error = psycopg.errors.error_from_result(result, encoding="utf-8")
        raise LeaseGone(first_line(error)) if error.sqlstate == "RQ007" else error

    def _open(self) -> None:
        self._connection, self._direct = _connect(self._dsn, self.name)
        self._pgconn = self._connection.pgconn
        self._prepared: dict[str, bytes] = {}
        self._cleaning = False

    def _prepare(self, statement: str) -> None:
        """After its first use: a pooler's next server connection wouldn't know it. By a name that no function prepares
        one of its own by."""
        if self._direct and self._pgconn.status == pq.ConnStatus.OK:
            name = f"{statement} {uuid.uuid4()}".encode()
            if self._pgconn.prepare(name, _STATEMENTS[statement]).status == pq.ExecStatus.COMMAND_OK:
                self._prepared[statement] = name

    def _reopen(self) -> None:
        self._connection.close()
        self._open()


def _read_settings(source: int) -> dict[str, Any]:
    data = b""
    while not data.endswith(b"\n"):
        chunk = os.read(source, 65536)
        if not chunk:
            sys.exit(1)
        data += chunk
    settings: dict[str, Any] = json.loads(data)
    return settings


def _connect(dsn: str, name: str) -> tuple[Connection, bool]:
    """The connection, and whether it leads to the server itself. Waits as long as it takes: a database that is away is
    no reason to call the children broken."""
    pause, checked = 0.1, _checked_dsn(dsn)
    while True:
        try:
            connection = connect(checked, name=name)
            connection.pgconn.exec_(_KEEP_MEMORY)
            return connection, is_direct(connection)
        except psycopg.Error as exc:
            if "unsupported startup parameter" in str(exc):
                checked = dsn
                continue
            sys.stderr.write(f"waiting for the database: {first_line(exc)}\n")
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(_PATIENCE_S, pause * 2)


def _checked_dsn(dsn: str) -> str:
    """The server looks twice a second whether we are still there: else it works on for a client that was killed."""
    given = conninfo_to_dict(dsn).get("options") or ""
    return make_conninfo(dsn, options=f"{given} -c client_connection_check_interval=500ms".strip())


def _channels(session: Session, settings: dict[str, Any]) -> dict[str, Answer]:
    if "providers" not in settings:
        return {}
    from reproq.channels import providers  # a child for functions has no use for what it imports

    return {name: ChannelTasks(session, given).answer for name, given in providers(settings["providers"]).items()}


def _answer(serve: Answer, order: dict[str, Any]) -> dict[str, Any]:
    began = time.monotonic()
    try:
        outcome = serve(order)
    except LeaseGone as exc:
        outcome = {"success": False, "error": str(exc)}
    except psycopg.Error as exc:
        outcome = {"success": False, "error": f"it was not committed: {first_line(exc)}"} | _detail(exc)
    ran_s = round(time.monotonic() - began, 6)
    return {"v": 1, "id": order["id"], "claim_no": order["claim_no"], "ran_s": ran_s} | outcome


def _run_function(session: Session, order: dict[str, Any]) -> dict[str, Any]:
    """Repeated over a lost connection: if it was committed after all, the fence refuses the repetition."""
    fence = (order["worker_id"], str(order["id"]), str(order["claim_no"]))
    outcome = session.ask("run_task", *fence, json.dumps(order["payload"]))
    if outcome["success"]:
        return {"success": True, "finished": True}
    if "snooze_s" in outcome:
        return {"success": False, "snooze_s": outcome["snooze_s"], "finished": True}
    return {"success": False, "error": outcome["error"], "finished": True}


def _detail(exc: psycopg.Error) -> dict[str, Any]:
    return {"error_detail": {"sqlstate": exc.sqlstate}} if exc.sqlstate else {}


if __name__ == "__main__":
    main()
