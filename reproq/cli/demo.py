"""`reproq demo`: an own PostgreSQL, a real worker, a small story, a table; nothing is left behind."""

from __future__ import annotations

import signal
import time
from types import FrameType
from typing import NoReturn

import click

from reproq import log
from reproq.cli import demo_worker, exits
from reproq.cli.demo_mail import HURRY, Mail
from reproq.cli.demo_sink import Sink
from reproq.cli.demo_story import SCHEMA, STORY, Ending
from reproq.cli.demo_view import View
from reproq.cli.demo_worker import Worker
from reproq.client import Client
from reproq.db.connect import Connection, as_sql, connect
from reproq.db.embedded import EmbeddedServer, throwaway
from reproq.db.inspection import failures_of, states_of

LIMIT_S = 60.0
LOOK_EVERY_S = 0.03


@click.command("demo")
@click.option("--plain", is_flag=True, help="One line for each change, also on a terminal.")
def command(plain: bool) -> int:
    """See it work: takes seconds, needs no database, leaves nothing behind.

    It starts a PostgreSQL of its own in a temporary folder and a worker, stores six tasks (one fails once, one kills
    its own process, one is of a type that nobody handles, …), sends an email to a mail server of its own, and shows
    what becomes of them. Status 0 = all ended as they should.

    \b
    reproq demo
    reproq demo --plain | tee demo.txt
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    log.setup("warning", human=True)
    view = View(plain)
    try:
        return play(view)
    except KeyboardInterrupt:
        view.say("stopped; worker, PostgreSQL and folder are gone")
        return exits.INTERRUPTED


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def play(view: View) -> int:
    view.say("starting a PostgreSQL of its own in a temporary folder")
    with throwaway() as server, Sink() as sink:
        _install(server)
        view.say("starting a worker with two child processes")
        with demo_worker.started(server.worker_dsn, server.folder, sink.url) as worker:
            endings = _enqueue(server.app_dsn())
            mail = Mail(server.app_dsn(), sink)
            view.say(f"stored {len(endings)} tasks, and an email for a server that puts it off once; watching them")
            with connect(server.admin_dsn, name="reproq demo") as connection:
                _watch(connection, endings, mail, worker, view)
                left = worker.stop()
                view.conclude(endings, mail.timeline(connection))
            status = _judge(endings, mail, left, worker, view)
    view.say("worker, PostgreSQL and folder are gone")
    if status == exits.DONE:
        view.say("next, with tasks of your own: reproq worker --embedded --app your_module")
    return status


def _install(server: EmbeddedServer) -> None:
    server.install(say=lambda _line: None)
    with connect(server.admin_dsn, name="reproq demo") as connection:
        connection.execute(as_sql(SCHEMA))
        connection.execute(as_sql(HURRY))


def _enqueue(dsn: str) -> list[Ending]:
    with Client(dsn, name="reproq demo") as client:
        return [
            Ending(chapter, client.enqueue(chapter.task_type, chapter.payload, **chapter.options)) for chapter in STORY
        ]


def _watch(connection: Connection, endings: list[Ending], mail: Mail, worker: Worker, view: View) -> None:
    until = time.monotonic() + LIMIT_S
    with view:
        while True:
            _look(connection, endings)
            mail.look(connection)
            view.show(endings)
            is_over = mail.is_over and all(ending.is_over for ending in endings)
            if is_over or worker.status is not None or time.monotonic() > until:
                return
            time.sleep(LOOK_EVERY_S)


def _look(connection: Connection, endings: list[Ending]) -> None:
    by_id = {ending.task_id: ending for ending in endings}
    ids = list(by_id)
    for state in states_of(connection, ids):
        by_id[state["id"]].state = state
    failures = failures_of(connection, ids)
    for ending in endings:
        ending.failures = [failure for failure in failures if failure["task_id"] == ending.task_id]


def _judge(endings: list[Ending], mail: Mail, left: int, worker: Worker, view: View) -> int:
    wrong = [ending for ending in endings if not ending.is_right]
    for ending in wrong:
        facts = ", ".join(ending.wrong) or "it isn't over"
        view.say(f"#{ending.task_id} {ending.chapter.task_type} didn't end as it should: {facts}")
    if not mail.is_right:
        view.say(f"the email didn't end as it should: {mail.state}")
    if left != 0:
        view.say(f"the worker ended with status {left}")
    if wrong or left != 0 or not mail.is_right:
        view.say(f"the last lines of its log:\n{worker.last_lines()}")
        return exits.FAILED
    view.say("every task ended as it should, and the email arrived once")
    return exits.DONE
