"""The heartbeat: a thread and a connection of its own, so that nothing a task or the loop does can starve it.

It extends what the worker holds, learns which leases are lost and which tasks are cancelled, moves the guard's
deadline, and listens: notifications (somebody enqueued for a sleeper, somebody cancelled) arrive on its connection.
"""

from __future__ import annotations

import logging
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Protocol

import psycopg

from reproq.db.errors import first_line
from reproq.db.line import Line
from reproq.log import Event, say
from reproq.models.execution import Execution
from reproq.queue import lease as leases_sql
from reproq.queue import workers
from reproq.runner.leases import Leases, boottime_ns

_ASK_AGAIN_S = 0.5


class Listener(Protocol):
    def heard(self, queue: str) -> None: ...
    def lost(self, execution: Execution) -> None: ...
    def cancelled(self, execution: Execution) -> None: ...


class Heart:
    """`post` hands a call to the loop's thread; everything else here happens on the heart's own."""

    def __init__(
        self,
        dsn: str,
        worker_id: str,
        lease_s: float,
        heartbeat_s: float,
        leases: Leases,
        listener: Listener,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._dsn = dsn
        self._worker_id = worker_id
        self._name = worker_id.rpartition("/")[0]  # all of it that others hear
        self._lease_s = lease_s
        self._every_s = heartbeat_s
        self._leases = leases
        self._listener = listener
        self._post = post
        self._stopping = False
        self._beat_now = False
        self._line: Line | None = None
        self._busy: set[tuple[int, int]] = set()
        self._failing_since = 0.0
        self.reconnects = -1  # the first connection is none
        self.last_beat = time.monotonic()
        self._wake, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    @property
    def is_accepted(self) -> bool:
        """Whether what this worker holds is still its own."""
        return time.monotonic() - self.last_beat < self._lease_s

    def start(self) -> None:
        self._thread.start()

    def beat_now(self) -> None:
        self._beat_now = True
        self._waker.send(b"x")

    def stop(self) -> None:
        """The last thread of a worker to stop."""
        self._stopping = True
        self._waker.send(b"x")
        self._thread.join(timeout=10)

    def _run(self) -> None:
        next_beat = time.monotonic()
        while not self._stopping:
            try:
                self._ready_line()
                if time.monotonic() >= next_beat or self._beat_now:
                    self._beat_now = False
                    self._beat()
                    next_beat = time.monotonic() + (_ASK_AGAIN_S if self._busy else self._every_s)
                self._wait(next_beat)
            except psycopg.Error as exc:
                self._failed(exc)
                next_beat = time.monotonic() + random.uniform(0.1, min(1.0, self._every_s / 2))
                self._pause(next_beat)
        if self._line is not None:
            self._line.close()

    def _ready_line(self) -> Line:
        if self._line is None:
            patience = max(1.0, min(5.0, self._lease_s / 6))
            self._line = Line.open(self._dsn, "reproq heartbeat", timeout_s=patience)
            self._line.run(workers.listen(), timeout_s=patience)
            self.reconnects += 1
            self._post(lambda: self._listener.heard(""))  # what was said meanwhile was not heard
        return self._line

    def _beat(self) -> None:
        held = self._leases.all()
        sent_ns = boottime_ns()
        call = leases_sql.heartbeat(self._worker_id.encode(), held, self._lease_s)
        answers = self._ready_line().run(call, timeout_s=max(1.0, min(self._every_s, self._lease_s / 6)))
        by_answer: dict[str, list[Execution]] = {"kept": [], "busy": [], "cancelled": [], "lost": []}
        for execution in held:
            by_answer[answers.get((execution.id, execution.claim_no), "lost")].append(execution)
        self._busy = {(e.id, e.claim_no) for e in by_answer["busy"]}
        self._leases.kept(by_answer["kept"] + by_answer["cancelled"], by_answer["busy"], sent_ns)
        for execution in by_answer["cancelled"]:
            self._post(lambda e=execution: self._listener.cancelled(e))  # type: ignore[misc]
        for execution in by_answer["lost"]:
            self._post(lambda e=execution: self._listener.lost(e))  # type: ignore[misc]
        self._succeeded()

    def _wait(self, until: float) -> None:
        """For the next beat, or for somebody to say something."""
        line = self._ready_line()
        left = until - time.monotonic()
        if left <= 0:
            return
        readable, _, _ = select.select([line.fileno(), self._wake.fileno()], [], [], left)
        if self._wake.fileno() in readable:
            self._wake.recv(4096)
        if line.fileno() in readable:
            line.receive()
            self._hear(line.notifications())

    def _hear(self, messages: list[str]) -> None:
        queues = {text for text in messages if not text.startswith("cancel ")}
        for queue in queues:
            self._post(lambda q=queue: self._listener.heard(q))  # type: ignore[misc]
        if f"cancel {self._name}" in messages:
            self._beat_now = True

    def _pause(self, until: float) -> None:
        readable, _, _ = select.select([self._wake], [], [], max(0.0, until - time.monotonic()))
        if readable:
            self._wake.recv(4096)

    def _succeeded(self) -> None:
        self.last_beat = time.monotonic()
        if self._failing_since:
            say(Event.DATABASE_BACK, "heartbeat: accepted again", away_s=round(self.last_beat - self._failing_since, 1))
            self._failing_since = 0.0

    def _failed(self, exc: psycopg.Error) -> None:
        """Unknown, not lost: the deadlines stand, the guard keeps them, we try again."""
        if self._line is not None:
            self._line.close()
            self._line = None
        self._leases.rest()
        if not self._failing_since:
            self._failing_since = time.monotonic()
            say(
                Event.HEARTBEAT_LATE,
                f"heartbeat: not accepted, trying again: {first_line(exc)}",
                logging.WARNING,
                held=len(self._leases),
            )
