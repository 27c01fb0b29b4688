"""A thousand messages while children and runners are killed. The judges are the provider's own ledger and the facts."""

from __future__ import annotations

import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from email import message_from_bytes
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from tests.channels.fakes import FakeResend
from tests.faults.scene import PATIENCE_S, Scene, send
from tests.worker.harness import Worker, wait_until

_SEND = (
    "select comms.send_email('p' || n || '@example.org', 'Hello', text_body => 'Hi', idempotency_key => 'k' || n)"
    " from generate_series(1, %s) n"
)
_HURRY = (
    "update comms.setting set backoff_base = '200 ms', backoff_cap = '2 s', check_base = '500 ms', check_cap = '3 s'"
)
_UNENDED = """
    select count(*) from comms.send_email_task r
    where not exists (select from comms.send_email_task_ended e where e.send_email_task_id = r.send_email_task_id)"""
_ENDINGS = """
    select m.to_address::text, e.outcome from comms.email_message m join comms.send_email_task r using (message_id)
    join comms.send_email_task_ended e using (send_email_task_id)"""
_CHAINS = "select count(*) from queues.task_runs where completed_at is null and deleted_at is null"


class Post(Controller):
    """An SMTP server that counts what it took, by address."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.number = free.getsockname()[1]
        super().__init__(self, hostname="127.0.0.1", port=self.number)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        self.taken[str(message_from_bytes(envelope.content)["To"])] += 1
        return "250 taken"


@pytest.fixture
def post() -> Iterator[Post]:
    post = Post()
    post.start()
    yield post
    post.stop()


def test_s23_mail_by_keys_is_accepted_exactly_once_whoever_is_killed(scene: Scene) -> None:
    with FakeResend() as resend:
        endings = _send_all(scene, lambda: _worker(scene, resend.settings()))
        accepted = Counter(entry["message"]["to"] for entry in resend.accepted)
    assert accepted == Counter(endings.keys())
    assert set(endings.values()) == {"succeeded"}


def test_s23_mail_by_smtp_arrives_once_or_is_said_to_be_unknown(scene: Scene, post: Post) -> None:
    environ = {"REPROQ_EMAIL_PROVIDER": "smtp", "REPROQ_SMTP_URL": f"smtp://127.0.0.1:{post.number}?tls=none"}
    endings = _send_all(scene, lambda: _worker(scene, environ | {"REPROQ_EMAIL_FROM": "shop@example.org"}))
    assert max(post.taken.values()) == 1
    assert set(endings.values()) <= {"succeeded", "unknown"}
    assert {address for address, outcome in endings.items() if outcome == "succeeded"} <= post.taken.keys()
    assert post.taken.keys() <= endings.keys()
    print(f"{Counter(endings.values())}, {len(post.taken)} arrived")


def _worker(scene: Scene, environ: dict[str, str]) -> Worker:
    return scene.worker("--system-processes", "3", environ={"REPROQ_APP": "", **environ})


def _send_all(scene: Scene, start: Callable[[], Worker]) -> dict[str, str]:
    """Sends all, kills throughout, and answers how each process ended, by address."""
    count = scene.size(ci=150, full=1000)
    scene.sql(_HURRY)
    workers = [start().ready() for _ in range(2)]
    scene.sql(_SEND, count)
    scene.sql(_SEND, count)  # the same keys again: not one message more
    kills = 0
    while scene.one(_UNENDED) and kills < scene.size(ci=60, full=400):
        time.sleep(scene.dice.uniform(0.03, 0.1))
        kills += 1
        number = scene.dice.randrange(2)
        if kills % 20 == 0:
            scene.kill(workers[number])
            workers[number] = start()
        elif children := [child for child in workers[number].family() if child.parent != workers[number].pid]:
            send([scene.dice.choice(children).pid], signal.SIGKILL)
    wait_until(lambda: not scene.one(_UNENDED), lambda: f"the end of all processes: {scene.log()}", PATIENCE_S, 0.2)
    wait_until(lambda: not scene.one(_CHAINS), lambda: f"the end of all tasks: {scene.left()}", PATIENCE_S, 0.2)
    print(f"{count} messages, {kills} kills")
    endings = scene.sql(_ENDINGS)
    assert len(endings) == len(dict(endings)) == count
    assert scene.one("select count(*) from internal.open_process") == 0
    assert scene.check("I6 I7 I8")
    return dict(endings)
