"""A database with sinks, receivers that stand for other systems, and dispatchers as their user runs them."""

from __future__ import annotations

import itertools
import json
import os
import ssl
from pathlib import Path
from typing import Any

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings import http
from standardwebhooks import Webhook

from reproq.db.connect import Connection, as_sql, connect
from tests.conftest import Database
from tests.outbox.receiver import Receiver, Request, Rule
from tests.worker.harness import Worker, wait_until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
_numbers = itertools.count(1)


class Office:
    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.receivers: list[Receiver] = []
        self.dispatchers: list[Worker] = []
        self.admin: Connection = database.connect("admin")
        self.app: Connection = database.connect("app")
        self.login = f"dispatch_{os.getpid()}_{next(_numbers)}"
        self.admin.execute(
            as_sql(f"create role {self.login} login password 'pw-of-dispatch' in role reproq_dispatcher")
        )
        place = database.dsn.rpartition("@")[2]
        self.dsn = f"postgresql://{self.login}:pw-of-dispatch@{place}"

    def receiver(self, rule: Rule | None = None, context: ssl.SSLContext | None = None) -> Receiver:
        self.receivers.append(Receiver(rule, context))
        return self.receivers[-1]

    def sink(self, name: str, url: str, **given: Any) -> None:
        """Quick to try again, as no real one would be."""
        fields = {"allow_private": True, "backoff_base": "50 ms", "backoff_cap": "200 ms", "timeout": "5 s", **given}
        arguments = "".join(f", {field} => %s" for field in fields)
        self.admin.execute(as_sql(f"select queues.put_sink(%s, %s{arguments})"), (name, url, *fields.values()))

    def publish(
        self, event_type: str = "shop.paid.v1", subject: str | None = None, data: Any = None, **given: Any
    ) -> str:
        """As the application's login; answers the event's id."""
        arguments = "".join(f", {field} => %s" for field in given)
        text = None if data is None else json.dumps(data)
        statement = as_sql(f"select queues.publish_event(%s, %s, %s{arguments})")
        row = self.app.execute(statement, (event_type, subject, text, *given.values())).fetchone()
        assert row
        return str(row[0])

    def dispatcher(self, *arguments: str, dsn: str | None = None, **environ: str) -> Worker:
        own = {"REPROQ_DATABASE_URL": dsn or self.dsn, "REPROQ_DISPATCH_ALLOW_PRIVATE": "127.0.0.0/8"}
        own |= {"REPROQ_DISPATCH_POLL_INTERVAL": "50ms", "REPROQ_SINK_SECRET_SHOP": SECRET}
        worker = Worker(self.folder, len(self.dispatchers), list(arguments), own | environ, "cmd.dispatcher")
        self.dispatchers.append(worker)
        return worker

    def deliver(self, *arguments: str, **environ: str) -> Worker:
        """Everything that can be delivered now, by a dispatcher that ends then."""
        worker = self.dispatcher("--until-empty", *arguments, **environ)
        assert worker.status() == 0, worker.log
        return worker

    def sql(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        cursor = self.admin.execute(as_sql(statement), parameters or None)
        return list(cursor.fetchall()) if cursor.description is not None else []

    def one(self, statement: str, *parameters: object) -> Any:
        return self.sql(statement, *parameters)[0][0]

    def wait_state(self, state: str, count: int = 1) -> None:
        """Until so many deliveries are in this state."""
        statement = "select count(*) from queues.outbox_delivery where state = %s"
        wait_until(
            lambda: self.one(statement, state) >= count,
            lambda: f"{count} {state}: {self.sql('select * from queues.outbox_delivery')} {self.story()}",
        )

    def story(self) -> str:
        return "\n".join(dispatcher.log for dispatcher in self.dispatchers)

    def close(self) -> None:
        for dispatcher in self.dispatchers:
            dispatcher.end()
        for receiver in self.receivers:
            receiver.close()
        with connect(self.database.dsn, name="test") as admin:
            admin.execute(as_sql(f"drop role {self.login}"))


def verified(request: Request, secret: str = SECRET) -> BaseCloudEvent:
    """The event in a request, as the official libraries read it."""
    Webhook(secret).verify(request.body, request.headers)
    return http.from_http_event(http.HTTPMessage(request.headers, request.body))


def batch(request: Request, secret: str = SECRET) -> list[BaseCloudEvent]:
    """The events of a batch: each is an event in the structured form."""
    Webhook(secret).verify(request.body, request.headers)
    assert request.headers["content-type"].startswith("application/cloudevents-batch+json")
    head = {"content-type": "application/cloudevents+json"}
    return [
        http.from_http_event(http.HTTPMessage(head, json.dumps(each).encode())) for each in json.loads(request.body)
    ]
