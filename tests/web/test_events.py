"""Server-sent events: what a browser's EventSource sees."""

from __future__ import annotations

import http.client
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reproq.tickets import ticket
from reproq.web.callers import REMEMBERED_S
from tests.conftest import Database
from tests.web.conftest import TICKET_KEY, Gateway, Serve, away
from tests.worker.harness import wait_until


class Stream:
    """An EventSource, in short."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response

    def block(self) -> dict[str, str]:
        """The next block of lines; a comment has the name ''. Nothing: the stream has ended."""
        found: dict[str, str] = {}
        while (line := self.response.readline().decode()) not in ("\n", ""):
            name, _, value = line.rstrip("\n").partition(":")
            found[name] = value.strip()
        return found

    def event(self) -> dict[str, Any]:
        while (found := self.block()) and "event" not in found:
            pass
        return {**found, "data": json.loads(found["data"])} if found else {}


@contextmanager
def followed(gateway: Gateway, number: int, last: str | None = None, made: str = "") -> Iterator[Stream]:
    connection = gateway.connect()
    headers = {"Authorization": f"Bearer {made or gateway.token}", "Accept": "text/event-stream"}
    try:
        connection.request(
            "GET", f"/v1/tasks/{number}/events", headers=headers | ({"Last-Event-ID": last} if last else {})
        )
        response = connection.getresponse()
        assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
        yield Stream(response)
    finally:
        connection.close()


def test_every_state_is_an_event_and_the_last_one_ends_the_stream(gateway: Gateway) -> None:
    number = gateway.enqueue()
    with followed(gateway, number) as stream:
        assert stream.block() == {"retry": "2000"}
        first = stream.event()
        assert (first["id"], first["event"], first["data"]["status"]) == ("0.PENDING", "status", "PENDING")
        gateway.claim(number)
        assert stream.event()["id"] == "1.RUNNING"
        gateway.database.execute(
            "update queues.task_runs set status = 'CANCELLED', completed_at = now() where id = %s", number
        )
        stopping = stream.event()
        assert (stopping["id"], stopping["event"], stopping["data"]["over"]) == ("1.STOPPING", "status", False)
        gateway.database.execute("update queues.task_runs set leased_until = null where id = %s", number)
        last = stream.event()
        assert (last["id"], last["event"], last["data"]["over"]) == ("1.CANCELLED", "over", True)
        assert stream.block() == {}


def test_a_reconnect_is_not_told_again_what_it_knows(gateway: Gateway) -> None:
    number = gateway.enqueue()
    gateway.claim(number)
    with followed(gateway, number, "1.RUNNING") as stream:
        gateway.finish(number, {"line": "one\ntwo"})
        last = stream.event()
        assert (last["id"], last["event"]) == ("2.SUCCESSFUL", "over")
        assert last["data"]["result"] == {"line": "one\ntwo"}
    with followed(gateway, number, "1.RUNNING") as stream:
        assert stream.event()["id"] == "2.SUCCESSFUL"
    ended = gateway.get(f"/v1/tasks/{number}/events", Last_Event_ID="2.SUCCESSFUL")
    assert (ended.status, ended.body) == (204, b"")


def test_signs_of_life_keep_a_silent_stream_open(serve: Serve) -> None:
    gateway = serve("--keep-alive", "100ms")
    gateway.token = gateway.make_token()
    number = gateway.enqueue()
    with followed(gateway, number) as stream:
        assert stream.event()["id"] == "0.PENDING"
        for _ in range(3):
            assert stream.block() == {"": "keep-alive"}
        gateway.finish(number)
        assert stream.event()["event"] == "over"


def test_a_stream_ends_with_its_ticket(serve: Serve) -> None:
    gateway = serve("--keep-alive", "100ms")
    number = gateway.enqueue()
    with followed(gateway, number, made=ticket(number, key=TICKET_KEY, expires_in=8)) as stream:
        assert stream.event()["id"] == "0.PENDING"
        assert stream.event() == {}


def test_a_stream_ends_with_its_token(serve: Serve) -> None:
    gateway = serve("--keep-alive", "100ms")
    gateway.token = gateway.make_token()
    number = gateway.enqueue()
    with followed(gateway, number) as stream:
        assert stream.event()["id"] == "0.PENDING"
        gateway.database.execute("select queues.revoke_token('test')")
        assert stream.event() == {}


def test_a_stream_of_a_token_goes_on_while_the_database_is_away(serve: Serve, database: Database) -> None:
    """For longer than what the token may do is remembered."""
    gateway = serve("--keep-alive", "100ms")
    gateway.token = gateway.make_token()
    number = gateway.enqueue()
    with followed(gateway, number) as stream:
        assert stream.event()["id"] == "0.PENDING"
        with away(database):
            began = time.monotonic()
            while time.monotonic() - began < REMEMBERED_S + 1:
                assert stream.block() == {"": "keep-alive"}
        gateway.await_event("database_back")
        gateway.finish(number)
        assert stream.event()["event"] == "over"


def test_a_gateway_that_stops_ends_its_streams(gateway: Gateway) -> None:
    number = gateway.enqueue()
    with followed(gateway, number) as stream:
        assert stream.block() == {"retry": "2000"}
        assert stream.event()["id"] == "0.PENDING"
        gateway.signal(signal.SIGTERM)
        assert stream.event() == {}
    assert gateway.process.wait(30) == 0


def test_a_task_that_vanishes_ends_its_stream(gateway: Gateway) -> None:
    number = gateway.enqueue()
    with followed(gateway, number) as stream:
        assert stream.event()["id"] == "0.PENDING"
        gateway.database.execute("select queues.soft_delete(%s, 'entered twice')", number)
        assert stream.event() == {"event": "gone", "data": {}}
        assert stream.block() == {}
    assert gateway.get(f"/v1/tasks/{number}/events").status == 404


def test_who_leaves_is_dropped(gateway: Gateway) -> None:
    number = gateway.enqueue()
    with followed(gateway, number) as stream:
        stream.event()
        assert gateway.counted("waiting") == 1
    wait_until(lambda: gateway.counted("waiting") == 0, "the one that left is dropped")
