"""Everything at once: writers that commit late or roll back, dispatchers that are killed, a sink that swallows answers.

`make outbox` runs it in full size: 20 writers, 10,000 events, a kill each second.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable

import psycopg
import pytest

from reproq import Client
from tests.outbox.office import Office, batch, verified
from tests.outbox.receiver import drops
from tests.worker.harness import Worker, wait_until

FULL = os.environ.get("OUTBOX_SIZE", "ci") == "full"
WRITERS, EVENTS, SUBJECTS = (20, 10_000, 40) if FULL else (8, 800, 10)
KILL_EVERY_S = 1.0
ROLLED_BACK = 0.2


class Writer(threading.Thread):
    """Commits late, rolls back now and then. Notes the order of commits of each subject, as its database did it."""

    def __init__(self, dsn: str, number: int, counts: int, journal: dict[str, list[str]]) -> None:
        super().__init__(daemon=True)
        self.dsn, self.dice, self.counts = dsn, random.Random(number), counts
        self.journal = journal
        self.committed: list[str] = []
        self.rolled_back: list[str] = []

    def run(self) -> None:
        with psycopg.connect(self.dsn) as connection:
            while len(self.committed) < self.counts:
                subject = f"order/{self.dice.randrange(SUBJECTS)}"
                event_id = Client.publish_event_in(connection, "storm.event", subject, {"writer": self.name})
                time.sleep(self.dice.choice((0, 0, 0.002, 0.02)))  # the transaction stays open
                if self.dice.random() < ROLLED_BACK:
                    connection.rollback()
                    self.rolled_back.append(event_id)
                    continue
                self.journal[subject].append(event_id)  # the subject is locked until the commit
                connection.commit()
                self.committed.append(event_id)


@pytest.mark.timeout(900 if FULL else 120)
@pytest.mark.parametrize("mode", ["structured", "batched"] if FULL else ["structured"])
def test_every_committed_event_arrives_in_order_and_no_other(office: Office, mode: str) -> None:
    receiver = office.receiver(drops(0.1))
    office.sink("shop", receiver.url(), mode=mode, batch_size=20, timeout="0.5 s", max_attempts=1000)
    journal: dict[str, list[str]] = defaultdict(list)
    writers = [Writer(office.database.app_dsn, n, EVENTS // WRITERS, journal) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    kills = kill_dispatchers(office, lambda: any(writer.is_alive() for writer in writers))
    for writer in writers:
        writer.join()

    committed = {event_id for writer in writers for event_id in writer.committed}
    rolled_back = {event_id for writer in writers for event_id in writer.rolled_back}
    read = [
        event
        for request in receiver.requests
        for event in (batch(request) if mode == "batched" else [verified(request)])
    ]
    seen = {event.get_id() for event in read}
    assert seen == committed and len(committed) == EVENTS
    assert not seen & rolled_back and len(rolled_back) > EVENTS * ROLLED_BACK / 2
    first_seen: dict[str, list[str]] = defaultdict(list)
    known = set()
    for event in read:
        if event.get_id() not in known:
            known.add(event.get_id())
            first_seen[str(event.get_subject())].append(event.get_id())
    assert first_seen == journal
    assert len(read) > EVENTS and kills >= 3
    assert office.one("select count(*) from queues.outbox_event where published_at is null or sinks_open <> 0") == 0
    print(f"{mode}: {len(committed)} events, {len(read) - len(committed)} repeats, {kills} kills")


def kill_dispatchers(office: Office, writing: Callable[[], bool]) -> int:
    """Three run; one is killed each second and replaced, until everything is delivered. Answers how many were."""

    def start() -> Worker:
        return office.dispatcher("--lease", "1s", "--concurrency", "4")

    running = [start() for _ in range(3)]
    kills = 0

    def done() -> bool:
        return not writing() and bool(not office.sql("select from queues.dispatch_sinks() where waiting"))

    while not done() or kills < 3:
        victim = running.pop(0)
        victim.wait_event("dispatcher_started")
        until = time.monotonic() + KILL_EVERY_S
        wait_until(lambda: time.monotonic() > until or (done() and kills >= 3), every_s=0.05)  # noqa: B023
        victim.process.kill()
        victim.process.wait()
        kills += 1
        running.append(start())
    for dispatcher in running:
        dispatcher.wait_event("dispatcher_started")
        assert dispatcher.stop() == 0
    return kills
