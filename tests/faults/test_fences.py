"""Every write that a stale execution can send, against a row that has gone on without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reproq.db.connect import Connection, as_sql
from tests.faults.scene import Scene

OLD, NEW = "old/1/x", "new/1/x"
_CLAIM = "select id, claim_no from queues.claim(%s, null, null, interval '1 minute', 1)"
_ROW = "select to_jsonb(t) from queues.task_runs t where id = %s"
_FINISH = (
    "select answer from queues.finish(%(worker)s, jsonb_build_array(jsonb_build_object("
    "'id', %(task)s::bigint, 'claim_no', %(claim)s::bigint, {})))"
)
WRITES = {
    "finish a success": _FINISH.format("'success', true, 'payload', 'stale'"),
    "finish a failure": _FINISH.format("'success', false, 'error', 'stale', 'detail', '{}'::jsonb"),
    "finish a last failure": _FINISH.format("'success', false, 'error', 'stale', 'final', true"),
    "finish a snooze": _FINISH.format("'success', false, 'snooze_s', 60"),
    "complete_task": "select queues.complete_task(%(task)s, %(worker)s, %(claim)s, '\"stale\"')",
    "fail_task": "select queues.fail_task(%(task)s, %(worker)s, %(claim)s, 'stale')",
    "give back what hasn't begun": "select answer from queues.give_back(%(worker)s, array[%(task)s], array[%(claim)s])",
    "give back what has": (
        "select answer from queues.give_back(%(worker)s, array[%(task)s], array[%(claim)s], array[true])"
    ),
    "heartbeat": (
        "select answer from queues.heartbeat(%(worker)s, array[%(task)s], array[%(claim)s], '1 hour', array[true])"
    ),
    "start": "select answer from queues.start(%(worker)s, array[%(task)s], array[%(claim)s])",
}
STRANGERS = ((OLD, 1), (OLD, 2), (NEW, 1))
"""Who comes too late: another worker with its own or a guessed number, and the holder with its number of before."""


@pytest.mark.parametrize("write", WRITES)
def test_s24_no_stale_write_changes_a_row_that_somebody_else_holds_or_that_is_over(scene: Scene, write: str) -> None:
    line = scene.database.connect("worker")
    (task,) = scene.client().enqueue("work", [{}])
    assert _claimed(line, OLD) == (task, 1)
    line.execute("select queues.give_back(%s, %s, %s)", [OLD, [task], [1]])
    assert set(_stale(scene, line, write, task, STRANGERS)) <= {"lost", "already"}
    assert _claimed(line, NEW) == (task, 2)
    assert set(_stale(scene, line, write, task, STRANGERS)) == {"lost"}
    line.execute("select queues.complete_task(%s, %s, 2, '\"right\"')", [task, NEW])
    assert set(_stale(scene, line, write, task, (*STRANGERS, (NEW, 2)))) <= {"lost", "already"}
    assert scene.one("select result_json from queues.task_runs where id = %s", task) == "right"
    scene.check("I1 I2 I8 I9")


def _claimed(line: Connection, worker: str) -> Any:
    return line.execute(_CLAIM, [worker]).fetchone()


def _stale(scene: Scene, line: Connection, write: str, task: int, who: tuple[tuple[str, int], ...]) -> Iterator[str]:
    """What each is answered; the row is the same before and after."""
    for worker, claim in who:
        before = scene.one(_ROW, task)
        found = line.execute(as_sql(WRITES[write]), {"worker": worker, "task": task, "claim": claim}).fetchone()
        assert found is not None
        assert scene.one(_ROW, task) == before, f"I9: {write} by {worker} with claim {claim} was accepted"
        yield str(found[0])


def test_s24_a_worker_that_asks_for_what_it_forgot_gets_back_nothing_of_anothers(scene: Scene) -> None:
    line = scene.database.connect("worker")
    (task,) = scene.client().enqueue("work", [{}])
    assert _claimed(line, NEW) == (task, 1)
    before = scene.one(_ROW, task)
    assert line.execute("select queues.recall(%s, '{}', '{}')", [OLD]).fetchone() == (0,)
    assert scene.one(_ROW, task) == before
