"""Starts the embedded server again when it ends and nobody stopped it: killed from outside, out of memory, crashed."""

import os
import select
import threading
from collections.abc import Callable
from typing import Self

import psycopg

from reproq.db.embedded.server import EmbeddedServer
from reproq.db.errors import EmbeddedError

_PAUSES_S = (0.2, 1.0, 5.0, 15.0)


class Reviver:
    """Watches the server that we started; one that we joined is its starter's to watch."""

    def __init__(self, server: EmbeddedServer, say: Callable[[str], None]) -> None:
        self._server = server
        self._say = say
        self._stop, self._stopper = os.pipe()
        self._thread = threading.Thread(target=self._watch, name="embedded server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Return once no start is under way; from then on the server may be stopped."""
        os.close(self._stopper)
        self._thread.join()
        os.close(self._stop)

    def _watch(self) -> None:
        while not self._server.joined and self._ended() and self._revived():
            pass

    def _ended(self) -> bool:
        """Wait for the end of the server, or for ours."""
        try:
            watched = os.pidfd_open(self._server.pid)
        except ProcessLookupError:
            return True
        try:
            return self._stop not in select.select([watched, self._stop], [], [])[0]
        finally:
            os.close(watched)

    def _revived(self) -> bool:
        server, port = self._server, self._server.port
        self._say(f"the embedded server (pid {server.pid}) ended and is started again; see {server.folder}/server.log")
        problem: Exception | None = None
        for pause_s in _PAUSES_S:
            try:
                server.restart()
            except (EmbeddedError, psycopg.OperationalError) as exc:  # it may end again while it starts
                problem = exc
            else:
                if server.port != port:
                    self._say(f"it is on port {server.port} now, not {port}: start this worker again")
                return True
            if select.select([self._stop], [], [], pause_s)[0]:
                return False
        self._say(f"it can't be started: {problem}")
        return False
