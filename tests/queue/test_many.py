"""Orders by filter, in batches; the copy of a task; the life of one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.queue.conftest import Queue, refused


def many(q: Queue, action: str, **named: object) -> dict[str, Any]:
    (row,) = q.call(f"{action}_many", **named)
    return row


def count(q: Queue, action: str, **named: object) -> tuple[int, int]:
    (row,) = q.call("count_chosen", action=action, **named)
    return row["tasks"], row["upto_id"]


def dead(q: Queue, task_type: str = "t", **named: Any) -> int:
    held = q.claimed(task_type, max_attempts=1, **named)
    q.fail(held)
    return held.id


def test_a_batch_takes_the_lowest_ids_and_says_where_it_ended(q: Queue) -> None:
    ids = [q.enqueue() for _ in range(5)]
    assert many(q, "cancel", batch=2) == {"last_id": ids[1], "answers": {"cancelled": 2}}
    assert many(q, "cancel", batch=2, after_id=ids[1]) == {"last_id": ids[3], "answers": {"cancelled": 2}}
    assert many(q, "cancel", batch=2, after_id=ids[3]) == {"last_id": ids[4], "answers": {"cancelled": 1}}
    assert many(q, "cancel", batch=2, after_id=ids[4]) == {"last_id": None, "answers": {}}


def test_only_a_batch_is_locked_at_once(q: Queue) -> None:
    ids = [q.enqueue() for _ in range(4)]
    with q.admin.transaction():
        many(q, "cancel", batch=2)
        free = "select id from queues.task_runs order by id for update skip locked"
        assert [row["id"] for row in q.rows(free, by=q.database.connect())] == ids[2:]


def test_each_filter_chooses(q: Queue) -> None:
    q.enqueue("shop.pay")
    bulk = q.enqueue("shop.mail", queue_name="bulk")
    old = q.enqueue("other")
    q.set(old, "created_at = now() - interval '2 days'")
    running = q.claimed("r").id
    assert count(q, "cancel") == (4, running)
    assert count(q, "cancel", type_prefix="shop.")[0] == 2
    assert count(q, "cancel", type_prefix="shop_")[0] == 0
    assert count(q, "cancel", queue_name="bulk") == (1, bulk)
    assert count(q, "cancel", older_than="1 day") == (1, old)
    assert count(q, "cancel", status="RUNNING") == (1, running)
    timed_out = dead(q)
    q.set(timed_out, "failure_kind = 'timed_out'")
    dead(q)
    assert count(q, "replay", failure_kind="timed_out") == (1, timed_out)


def test_a_running_one_stops_and_what_has_ended_isnt_chosen(q: Queue) -> None:
    running, waiting, failed = q.claimed().id, q.enqueue(), dead(q, "u")
    assert many(q, "cancel", reason="shop closes")["answers"] == {"stopping": 1, "cancelled": 1}
    assert [q.task(i)["last_error"] for i in (running, waiting)] == ["shop closes"] * 2
    assert q.task(failed)["status"] == "FAILED"


def test_dead_letters_are_replayed_and_nothing_else(q: Queue) -> None:
    first, second = dead(q), dead(q)
    deleted, supervised = dead(q), dead(q)
    q.soft_delete(deleted)
    q.set(supervised, "supervised = true")
    cancelled = q.enqueue()
    q.cancel(cancelled)
    assert many(q, "replay") == {"last_id": second, "answers": {"replayed": 2}}
    assert [q.task(i)["status"] for i in (first, second, cancelled)] == ["PENDING", "PENDING", "CANCELLED"]
    assert many(q, "replay", status="CANCELLED")["answers"] == {"replayed": 1}


def test_one_that_a_twin_stands_in_the_way_of_doesnt_stop_the_others(q: Queue) -> None:
    blocked = dead(q, unique_among="active")
    q.enqueue(unique_among="active")
    free = dead(q, "u")
    assert many(q, "replay")["answers"] == {"twin_waits": 1, "replayed": 1}
    assert [q.task(i)["status"] for i in (blocked, free)] == ["FAILED", "PENDING"]


def test_what_came_after_the_question_is_left_alone(q: Queue) -> None:
    first = q.enqueue()
    tasks, upto_id = count(q, "cancel")
    later = q.enqueue()
    assert (tasks, many(q, "cancel", upto_id=upto_id)["last_id"]) == (1, first)
    assert q.task(later)["status"] == "PENDING"


def test_an_app_chooses_among_its_own(q: Queue) -> None:
    app = q.database.connect("app")
    q.enqueue()
    mine = q.value("select queues.enqueue('t')", by=app)
    assert q.rows("select * from queues.count_chosen('cancel')", by=app) == [{"tasks": 1, "upto_id": mine}]
    assert q.value("select answers from queues.cancel_many()", by=app) == {"cancelled": 1}
    assert q.count("status = 'PENDING'") == 1


@pytest.mark.parametrize(
    ("action", "named", "word"),
    [
        ("cancel", {"status": "FAILED"}, "PENDING"),
        ("cancel", {"status": "nonsense"}, "PENDING"),
        ("replay", {"status": "SUCCESSFUL"}, "FAILED"),
        ("cancel", {"older_than": "-1 day"}, "age"),
        ("cancel", {"batch": 0}, "after_id"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(q: Queue, action: str, named: dict[str, object], word: str) -> None:
    state, _message, hint = refused(lambda: many(q, action, **named))
    assert (state, word in hint) == ("RQ003", True)


def test_a_copy_is_a_new_task_of_the_same_work_without_its_key(q: Queue) -> None:
    held = q.claimed(payload={"n": 1}, idempotency_key="k", priority=3, timeout="9 s", unique_among="active")
    q.succeed(held, payload=1)
    copy = q.task(q.value("select queues.replay_as_new(%s)", held.id))
    first = q.task(held.id)
    same = ("task_type", "queue_name", "payload_json", "spec_hash", "priority", "timeout_s", "created_by")
    assert {name: copy[name] for name in same} == {name: first[name] for name in same}
    assert (copy["status"], copy["replay_of"], copy["idempotency_key"]) == ("PENDING", held.id, None)
    assert first["status"] == "SUCCESSFUL"
    assert q.last_detail(held.id) == {"as": copy["id"], "by": "postgres"}


def test_a_copy_gets_the_attempts_of_one_go_and_stays_a_told_task(q: Queue) -> None:
    row = q.claimed(max_attempts=2)
    q.fail(row, final=True)
    q.replay(row.id, 4)
    (again,) = q.claim(1)
    q.fail(again, final=True)
    q.set(row.id, "dead_letter_of = 4711")
    copy = q.task(q.value("select queues.replay_as_new(%s)", row.id))
    assert (q.task(row.id)["max_attempts"], copy["max_attempts"], copy["dead_letter_of"]) == (5, 4, 4711)


def test_what_hasnt_ended_or_belongs_to_a_process_isnt_copied(q: Queue) -> None:
    task_id = q.enqueue()
    assert "hasn't ended" in refused(lambda: q.value("select queues.replay_as_new(%s)", task_id))[1]
    failed = dead(q, "u")
    q.set(failed, "supervised = true")
    assert "reproq process retry" in refused(lambda: q.value("select queues.replay_as_new(%s)", failed))[2]
    assert q.value("select queues.replay_as_new(%s)", 10**12) is None


def test_the_life_of_a_task_holds_all_but_the_fence(q: Queue) -> None:
    held = q.claimed(worker="host/1/secret", payload={"n": 1}, max_attempts=2)
    child = q.enqueue(after=[held.id])
    q.fail(held, detail={"pid": 7, "output": "tail"}, retry_in_s=60)
    life = q.value("select queues.task_life(%s)", held.id)
    assert (life["task"]["status"], life["task"]["payload_json"]) == ("RETRYING", {"n": 1})
    assert [(event["event"], event["worker"]) for event in life["events"]] == [("retried", "host/1")]
    assert (life["events"][0]["detail"]["pid"], life["events"][0]["detail"]["output"]) == (7, "tail")
    assert [each["id"] for each in life["waited_for_by"]] == [child]
    assert [each["id"] for each in q.value("select queues.task_life(%s)", child)["waits_for"]] == [held.id]
    assert "secret" not in str(life)


def test_an_app_sees_the_life_of_its_own_tasks_only(q: Queue) -> None:
    app = q.database.connect("app")
    mine, theirs = q.value("select queues.enqueue('t')", by=app), q.enqueue()
    assert q.value("select queues.task_life(%s)", mine, by=app)["task"]["id"] == mine
    assert q.value("select queues.task_life(%s)", theirs, by=app) is None


def test_a_deletion_needs_a_reason(q: Queue) -> None:
    task_id = q.enqueue()
    for reason in (None, "", " \t"):
        assert refused(lambda reason=reason: q.soft_delete(task_id, reason))[0] == "RQ003"  # type: ignore[misc]
    assert q.task(task_id)["deleted_at"] is None
