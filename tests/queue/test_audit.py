"""The ordinary events: written where a queue asks for them, and nowhere else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.queue.conftest import Queue, refused, wait_until

WORKER = "host/1/fence"


def audit(own: Queue, queue_name: str = "default", which: str | None = "all") -> str:
    return str(own.value("select queues.audit_queue(%s, %s)", queue_name, which))


def told(own: Queue, task_id: int) -> list[dict[str, Any]]:
    return own.rows("select * from queues.task_events where task_id = %s order by id", task_id)


def test_a_queue_that_asks_gets_the_whole_life_of_its_tasks(own: Queue) -> None:
    assert audit(own) == "all"
    held = own.claimed(worker=WORKER)
    own.succeed(held, ran_s=0.25)
    events = told(own, held.id)
    assert [event["event"] for event in events] == ["created", "claimed", "started", "succeeded"]
    assert events[0]["detail"] == {"type": "t", "queue": "default", "by": "postgres"}
    assert [(event["claim_no"], event["attempt"], event["worker_id"]) for event in events[1:]] == [(1, 1, WORKER)] * 3
    assert events[3]["detail"] == {"duration_s": 0.25}
    assert 0.2 < (events[3]["created_at"] - events[2]["created_at"]).total_seconds() < 5


def test_a_queue_that_asks_for_nothing_has_no_ordinary_events_beside_one_that_does(own: Queue) -> None:
    audit(own, "loud")
    own.value("select queues.pause_queue('default', false)")  # it has settings, but none of these
    quiet, loud = own.claimed("a"), own.claimed("b", queue_name="loud")
    for held in (quiet, loud):
        own.start(held)
        own.succeed(held)
    assert own.events(quiet.id) == []
    assert own.events(loud.id) == ["created", "claimed", "started", "succeeded"]


def test_no_more_of_them_after_the_setting_is_taken_back(own: Queue) -> None:
    audit(own)
    assert own.value("select audits from internal.flow")
    assert audit(own, which="unusual") == "unusual"
    assert not own.value("select audits from internal.flow")
    held = own.claimed()
    own.succeed(held)
    assert own.events(held.id) == []


def test_what_happens_twice_is_told_once(own: Queue) -> None:
    audit(own)
    held = own.claimed()
    assert (own.start(held), own.start(held)) == ("kept", "kept")
    assert (own.succeed(held, ran_s=1), own.succeed(held, ran_s=1)) == ("done", "already")
    assert own.events(held.id) == ["created", "claimed", "started", "succeeded"]


def test_a_lost_or_cancelled_execution_tells_of_no_success(own: Queue) -> None:
    audit(own)
    lost, cancelled = own.claimed("a"), own.claimed("b")
    own.expire(lost.id)
    own.reclaim()
    own.cancel(cancelled.id)
    assert (own.succeed(lost, ran_s=1), own.succeed(cancelled, ran_s=1)) == ("lost", "cancelled")
    assert own.events(lost.id) == ["created", "claimed", "lease_expired"]
    assert own.events(cancelled.id) == ["created", "claimed", "cancelled"]


def test_each_attempt_has_its_own_start(own: Queue) -> None:
    audit(own)
    held = own.claimed()
    own.fail(held, ran_s=0.1, retry_in_s=0)
    (again,) = own.claim()
    own.succeed(again, ran_s=0.1)
    assert [(event["event"], event["claim_no"]) for event in told(own, held.id)[1:]] == [
        ("claimed", 1), ("started", 1), ("retried", 1), ("claimed", 2), ("started", 2), ("succeeded", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["enqueue_many", "with a key", "complete_task"])
def test_every_way_in_and_out_is_told_of(own: Queue, way: str) -> None:
    audit(own)
    if way == "enqueue_many":
        ids = own.enqueue_many(payloads=[{}, {}])
    else:
        ids = [own.enqueue(idempotency_key="k"), own.enqueue(idempotency_key="k")][:1]
    if way == "complete_task":
        (row,) = own.call("dequeue_next_available_task")
        own.call("complete_task", id=row["id"], worker_id=row["worker_id"], claim_no=1, result=Jsonb(1))
        assert own.events(ids[0]) == ["created", "claimed", "started", "succeeded"]
    else:
        assert [own.events(task_id) for task_id in ids] == [["created"]] * len(ids)


def test_a_setting_that_is_none_is_refused(own: Queue) -> None:
    for which in ("most", None):
        state, message, hint = refused(lambda which=which: audit(own, which=which))  # type: ignore[misc]
        assert state == "RQ003"
        assert "is unknown" in message
        assert "'all'" in hint
    assert refused(lambda: audit(own, "no queue!"))[0] == "RQ001"


def test_two_settings_at_once_lose_none(own: Queue) -> None:
    """One queue stops asking while another begins."""
    audit(own, "first")
    other = own.database.connect()
    with ThreadPoolExecutor(1) as pool:
        with own.database.connect().transaction() as stops:
            own.value("select queues.audit_queue('first', 'unusual')", by=stops.connection)
            begins = pool.submit(own.value, "select queues.audit_queue('second', 'all')", by=other)
            wait_until(lambda: own.waits_for_a_lock(other))
        assert begins.result(20) == "all"
    assert own.value("select audits from internal.flow")
