"""The demo's email: sent by one SQL call, put off once by its server, sent again by its supervisor."""

from __future__ import annotations

from typing import Any

from reproq.cli.demo_sink import Sink
from reproq.cli.process_view import sheet
from reproq.db.connect import Connection, as_sql, connect
from reproq.db.processes import find_process, timeline_of

# A newcomer has no ten seconds to wait between two attempts.
HURRY = "update comms.setting set backoff_base = '500 ms'"
_SEND = "select comms.send_email('ada@example.org', 'Welcome, Ada', text_body => 'It works.')"


class Mail:
    def __init__(self, app_dsn: str, sink: Sink) -> None:
        self._sink = sink
        with connect(app_dsn, name="reproq demo") as connection:
            row: Any = connection.execute(as_sql(_SEND)).fetchone()
        self.id = int(row[0])
        self.state: dict[str, Any] = {}

    def look(self, connection: Connection) -> None:
        row: Any = connection.execute("select comms.send_email_status(%s)", (self.id,)).fetchone()
        self.state = dict(row[0])

    @property
    def is_over(self) -> bool:
        return "ended_at" in self.state

    @property
    def is_right(self) -> bool:
        came = (self.state.get("state"), self.state.get("attempts"), self.state.get("failures"))
        return came == ("succeeded", 2, 1) and len(self._sink.messages) == 1

    def timeline(self, connection: Connection) -> str:
        return "\n".join(sheet(timeline_of(connection, find_process(connection, "comms.send_email"), self.id)))
