"""The way between here and the server: does a notification arrive, does a pooler stand between?"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from psycopg import sql

from reproq.db.connect import Connection, connect, is_direct
from reproq.db.doctor.rule import Finding, Rule, Severity
from reproq.db.doctor.scene import Scene, Unseen

PATIENCE_S = 2.0


def _direct(scene: Scene) -> Iterable[Finding]:
    if not is_direct(scene.conn):
        yield Finding(
            "a pooler stands between here and the server. Reproq works through one: it prepares no statements there and"
            " keeps no state in a session; a child that was killed can't end its own session as quickly",
            "nothing, or give workers the server's own address",
        )


def _notifications(scene: Scene) -> Iterable[Finding]:
    if scene.dsn is None:
        raise Unseen("a second connection is needed, and there is no address for one")
    with connect(scene.dsn, name="reproq doctor listens") as listener:
        if not _arrives(scene.conn, listener):
            yield Finding(
                f"a notification didn't arrive within {PATIENCE_S:g} s, as behind a pooler in transaction mode: an idle"
                " worker finds a new task at its next poll (1 s) instead of at once, and learns of a cancelled one with"
                " its next heartbeat (10 s)",
                "give workers an address past the pooler, or one in session mode; else --poll-interval 200ms",
            )


def _arrives(speaker: Connection, listener: Connection) -> bool:
    channel = f"reproq_doctor_{uuid.uuid4().hex}"
    listener.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
    speaker.execute("select pg_notify(%s, '')", [channel])
    return any(True for _ in listener.notifies(timeout=PATIENCE_S, stop_after=1))


RULES = (
    Rule(
        "line.direct",
        "no pooler stands between here and the server",
        "pg_backend_pid() against the number that the connection was told",
        _direct,
        severity=Severity.NOTE,
    ),
    Rule(
        "line.notifications",
        "notifications arrive",
        "one sent and awaited through this address",
        _notifications,
        severity=Severity.WARNING,
    ),
)
