"""What the engine itself tells: failed for good, a process ended, a worker lost; for queues that ask only."""

from __future__ import annotations

import json
from typing import Any

from tests.outbox.office import Office

WORKER = "host/1/uuid"
EVENTS = "select event_type::text, subject::text, ordered, data from queues.outbox_event order by id"


def asks(office: Office, queue: str = "default") -> None:
    assert office.one("select queues.engine_events(%s)", queue) == "wanted"


def enqueue(office: Office, **given: Any) -> int:
    arguments = "".join(f", {field} => %s" for field in given)
    payload = json.dumps({"secret": "payload"})
    return int(office.one(f"select queues.enqueue('shop.pay', %s{arguments})", payload, *given.values()))


def fail_all(office: Office, **more: Any) -> None:
    rows = office.sql("select id, claim_no from queues.claim(%s, null, null, '30 s', 100)", WORKER)
    outcomes = [
        {"id": number, "claim_no": fence, "success": False, "error": "secret payload", "kind": "raised", **more}
        for number, fence in rows
        if number
    ]
    office.sql("select queues.finish(%s, %s)", WORKER, json.dumps(outcomes))


def test_a_task_that_fails_for_good_is_an_event_without_its_payload(office: Office) -> None:
    asks(office)
    retried = enqueue(office, max_attempts=2)
    final = enqueue(office, max_attempts=1)
    fail_all(office)
    ((event_type, subject, ordered, data),) = office.sql(EVENTS)
    assert (event_type, subject, ordered) == ("reproq.task.failed", str(final), False)
    assert data.items() >= {
        "task_id": final, "task_type": "shop.pay", "queue_name": "default", "failure_kind": "raised", "attempts": 1,
    }.items()  # fmt: skip
    assert "secret" not in json.dumps(data)
    office.sql("update queues.task_runs set run_after = now()")
    fail_all(office)
    assert [row[1] for row in office.sql(EVENTS)] == [str(final), str(retried)]


def test_every_way_to_fail_for_good_tells(office: Office) -> None:
    asks(office)
    enqueue(office, max_attempts=5)
    fail_all(office, kind="no_handler_registered")
    enqueue(office, max_attempts=5)
    fail_all(office, final=True)
    enqueue(office, max_attempts=1)
    claimed = "queues.claim(%s, null, null, '30 s', 9)"
    office.sql(f"select queues.start(%s, array_agg(id), array_agg(claim_no)) from {claimed}", WORKER, WORKER)
    office.sql("update queues.task_runs set leased_until = now() - interval '1 hour' where leased_until is not null")
    office.sql("select internal.reclaim('-infinity')")
    kinds = [data["failure_kind"] for _, _, _, data in office.sql(EVENTS)]
    assert kinds == ["no_handler_registered", "raised", "lease_expired"]


def test_a_queue_that_does_not_ask_tells_nothing(office: Office) -> None:
    asks(office, "other")
    enqueue(office, max_attempts=1)
    fail_all(office)
    office.sql("select queues.register_worker(%s, 'host', 1, '1', '{default}', null, 1, '{}')", WORKER)
    office.sql("select internal.clean_up('-1 seconds')")
    assert office.sql(EVENTS) == []
    assert office.one("select queues.engine_events('default', true)") == "wanted"
    assert office.one("select queues.engine_events('default', false)") == "unwanted"
    enqueue(office, max_attempts=1)
    fail_all(office)
    assert office.sql(EVENTS) == []


def test_a_lost_worker_is_an_event_with_the_part_of_its_id_that_is_no_fence(office: Office) -> None:
    asks(office)
    for name in ("host/1/uuid-a", "host/2/uuid-b"):
        queues = "{default}" if name[5] == "1" else "{bulk}"
        office.sql("select queues.register_worker(%s, 'host', 1, '1', %s, null, 1, '{}')", name, queues)
    assert office.one("select internal.clean_up('-1 seconds') -> 'workers_removed'") == 2
    ((event_type, subject, _, data),) = office.sql(EVENTS)
    assert (event_type, subject, data["queues"]) == ("reproq.worker.lost", "host/1", ["default"])
    assert "uuid" not in json.dumps(data)


def test_a_process_that_ends_is_one_event_with_its_outcome(office: Office) -> None:
    asks(office)
    send = office.one("select comms.send_email('ann@example.org', 'Hi', text_body => 'secret')")
    assert office.one("select comms.cancel_email(%s)", send) == "cancelled"
    assert office.one("select comms.cancel_email(%s)", send) == "cancelled"
    ((event_type, subject, ordered, data),) = office.sql(EVENTS)
    assert (event_type, subject, ordered) == ("reproq.process.ended", f"comms.send_email/{send}", False)
    assert (data["process"], data["ids"], data["outcome"]) == (
        "comms.send_email",
        {"send_email_task_id": send},
        "cancelled",
    )


def test_a_batch_of_failures_takes_no_lock_that_others_wait_for(office: Office) -> None:
    asks(office)
    office.sink("shop", "https://hooks.example.com", allow_private=False)
    for _ in range(5):
        enqueue(office, max_attempts=1)
    with office.admin.transaction():
        fail_all(office)
        assert office.one("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()") == 0
    assert len(office.sql(EVENTS)) == 5
