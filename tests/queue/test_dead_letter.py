"""What has failed for good is told to a task of the dead-letter type, once, in the same transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.queue.conftest import Claimed, Queue, refused


def route(own: Queue, target: str | None = "morgue", queue_name: str = "default") -> str:
    return str(own.value("select queues.route_dead_letters(%s, %s)", queue_name, target))


def letters(own: Queue, target: str = "morgue") -> list[dict[str, Any]]:
    return own.rows("select * from queues.task_runs where task_type = %s order by id", target)


def fail_for_good(own: Queue, task_type: str = "t", **named: Any) -> Claimed:
    held = own.claimed(task_type, max_attempts=1, **named)
    assert own.fail(held, error="no such invoice") == "done"
    return held


def test_a_final_failure_is_told_with_everything_that_one_needs(own: Queue) -> None:
    assert route(own) == "routed"
    held = fail_for_good(own, payload={"invoice": 7})
    (letter,) = letters(own)
    assert letter["payload_json"] == {
        "task_id": held.id, "task_type": "t", "queue_name": "default", "failure_kind": "raised",
        "last_error": "no such invoice", "attempts": 1, "payload": {"invoice": 7},
    }  # fmt: skip
    assert (letter["status"], letter["queue_name"], letter["dead_letter_of"]) == ("PENDING", "default", held.id)
    assert own.events(held.id) == ["failed", "routed"]
    assert own.last_detail(held.id) == {"type": "morgue", "task": letter["id"]}


def test_a_failure_that_is_retried_isnt_told(own: Queue) -> None:
    route(own)
    held = own.claimed(max_attempts=2)
    own.fail(held, retry_in_s=0)
    assert letters(own) == []
    (again,) = own.claim()
    own.fail(again)
    assert len(letters(own)) == 1


def _expire(own: Queue, held: Claimed) -> None:
    own.start(held)
    own.expire(held.id)
    own.reclaim()


ENDS: dict[str, Callable[[Queue, Claimed], object]] = {
    "reclaimed": _expire,
    "interrupted": lambda own, held: own.give_back(held, started=[True]),
    "validation": lambda own, held: own.finish(held, False, kind="validation", error="x"),
    "fail_task": lambda own, held: own.call("fail_task", id=held.id, worker_id="w", claim_no=1, error="x", retry=False),
}


@pytest.mark.parametrize("end", ENDS)
def test_every_way_to_fail_for_good_is_told(own: Queue, end: str) -> None:
    route(own)
    held = own.claimed(max_attempts=1)
    ENDS[end](own, held)
    assert own.task(held.id)["status"] == "FAILED"
    assert [letter["dead_letter_of"] for letter in letters(own)] == [held.id]


def test_it_is_told_once_for_each_final_failure(own: Queue) -> None:
    route(own)
    held = fail_for_good(own)
    assert own.fail(held) == "already"
    assert len(letters(own)) == 1
    own.replay(held.id, 1)
    (again,) = own.claim(prefixes=["t"])
    own.fail(again)
    assert [letter["idempotency_key"] for letter in letters(own)] == [
        f"dead-letter-{held.id}-1", f"dead-letter-{held.id}-2",
    ]  # fmt: skip


def test_the_letter_exists_only_if_the_failure_was_committed(own: Queue) -> None:
    route(own)
    held = own.claimed(max_attempts=1)
    outcome = Jsonb([held.fence | {"success": False, "error": "x"}])
    with own.admin.transaction(force_rollback=True):
        own.call("finish", worker_id="w", outcomes=outcome)
        assert len(letters(own)) == 1
    assert letters(own) == []


def test_a_types_own_route_wins_over_the_queues(own: Queue) -> None:
    route(own)
    own.declare("t", dead_letter_type="morgue.of.t")
    fail_for_good(own)
    fail_for_good(own, "u")
    assert len(letters(own, "morgue.of.t")) == len(letters(own)) == 1
    own.declare("t")
    fail_for_good(own)
    assert len(letters(own)) == 2


def test_no_route_is_a_circle(own: Queue) -> None:
    route(own)
    own.declare("morgue", dead_letter_type="t")
    own.declare("t", dead_letter_type="morgue")
    fail_for_good(own)
    (letter,) = own.claim(prefixes=["morgue"])
    own.finish(letter, False, error="the morgue is closed", final=True)
    assert own.count("status = 'FAILED'") == own.count() == 2
    own.declare("morgue", dead_letter_type="morgue")
    fail_for_good(own, "morgue")
    assert own.count() == 3


def test_what_nobody_wants_to_hear_of_isnt_told(own: Queue) -> None:
    route(own)
    deleted = own.claimed(max_attempts=1)
    own.soft_delete(deleted.id)
    own.fail(deleted)
    supervised = own.claimed(max_attempts=1)
    own.set(supervised.id, "supervised = true")
    own.fail(supervised)
    cancelled = own.claimed(max_attempts=1)
    own.cancel(cancelled.id)
    own.fail(cancelled)
    assert letters(own) == []
    assert route(own, None) == "removed"
    fail_for_good(own)
    assert letters(own) == []


def test_a_payload_that_fits_no_more_is_left_out(own: Queue) -> None:
    route(own)
    deep: object = 1
    for _ in range(63):
        deep = [deep]
    fail_for_good(own, payload={"deep": deep})
    (letter,) = letters(own)
    assert (letter["payload_json"]["payload"], letter["payload_json"]["payload_left_out"]) == (None, True)


def test_a_letter_that_cant_be_written_doesnt_stop_the_failure(own: Queue) -> None:
    route(own)
    held = own.claimed(max_attempts=1)
    own.rows("update queues.settings set max_payload_bytes = 2")
    assert own.fail(held) == "done"
    assert own.task(held.id)["status"] == "FAILED"
    (error,) = own.rows("select source, message from queues.error")
    assert error["source"] == "dead_letter"
    assert "the limit is 2" in error["message"]


def test_a_letter_belongs_to_whom_the_task_belonged(own: Queue) -> None:
    route(own)
    app = own.database.connect("app")
    task_id = own.value("select queues.enqueue('t', max_attempts => 1)", by=app)
    (held,) = own.claim()
    own.fail(held)
    (letter,) = letters(own)
    assert letter["created_by"] == own.task(task_id)["created_by"] == "reproq_app_login"
    assert own.rows("select * from queues.task_status(%s)", letter["id"], by=app)


def test_types_of_reproqs_own_take_no_letters(own: Queue) -> None:
    for target in ("db_function", "email", "sms"):
        assert refused(lambda target=target: route(own, target))[0] == "RQ003"  # type: ignore[misc]
    assert refused(lambda: route(own, "no type!"))[0] == "RQ001"
