"""Looks at the workers' sessions and at the machine's processes while a scenario runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psycopg

from reproq.db.connect import Connection, connect
from tests.faults.clients import Repeated
from tests.faults.evidence import Body, Idler, Watch

_IDLERS = """
    select pid, application_name, extract(epoch from clock_timestamp() - state_change)::float
    from pg_stat_activity
    where state like 'idle in transaction%' and datname = current_database() and usename = 'reproq_worker'"""


class Witness:
    """Samples pg_stat_activity five times a second, as long as the server is there."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Connection | None = None
        self._longest: dict[int, Idler] = {}
        self._looks = 0
        self._began = time.monotonic()
        self._looking = Repeated(self._look, 0.2)

    @property
    def idlers(self) -> list[Idler]:
        return list(self._longest.values())

    @property
    def watch(self) -> Watch:
        return Watch(self._looks, time.monotonic() - self._began)

    def start(self) -> None:
        self._looking.__enter__()

    def stop(self) -> None:
        self._looking.__exit__()
        if self._connection is not None:
            self._connection.close()

    def _look(self) -> None:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = connect(self._dsn, name="witness")
            for pid, name, seconds in self._connection.execute(_IDLERS).fetchall():
                self._note(int(str(pid)), Idler(str(name), float(str(seconds))))
            self._looks += 1
        except psycopg.Error:
            self._connection = None

    def _note(self, pid: int, idler: Idler) -> None:
        if pid not in self._longest or self._longest[pid].seconds < idler.seconds:
            self._longest[pid] = idler


def body(pid: int) -> Body:
    """Where the kernel doesn't let us count its descriptors, the size of their table stands for them."""
    try:
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        descriptors = int(status(pid)["FDSize"])
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Body(descriptors, pages * os.sysconf("SC_PAGE_SIZE") // 1024)


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def peak_kib(pid: int, *, anew: bool = False) -> int:
    """The most memory that a process had so far. `anew` forgets what was, where the kernel lets us."""
    if anew:
        try:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        except PermissionError:
            pass
    return int(status(pid)["VmHWM"].split()[0])
