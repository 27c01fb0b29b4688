"""reproq.queue: one thin call per function, over the line that the runner uses."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from reproq.db.line import Line
from reproq.models.execution import Execution
from reproq.queue import claim as claims
from reproq.queue import lease, workers
from reproq.queue.claim import Scope

from .conftest import Queue

SCOPE = Scope.of('w"\\{}', ("default", 'odd"\\,{} name'), ())
POOLS = [{"free": 9}]


@pytest.fixture
def line(q: Queue) -> Iterator[Line]:
    line = Line.open(q.database.worker_dsn, "test")
    yield line
    line.close()


def claim(
    line: Line, count: int = 9, hints: bytes | None = None, max_bytes: int = 1 << 20, *, look: bool = False
) -> claims.Claimed:
    claimed: claims.Claimed = line.run(claims.claim(SCOPE, 30, count, hints, POOLS, max_bytes, look=look), 20)
    return claimed


def test_a_claim_becomes_executions_and_hints(q: Queue, line: Line) -> None:
    first = q.enqueue("t", {"n": 1}, idempotency_key="ключ", timeout="1.5 s", max_attempts=1)
    second = q.enqueue("u", {"text": "é"})
    claimed = claim(line, 1)
    (one,) = claimed.executions
    assert (one.id, one.claim_no, one.task_type, one.queue_name) == (first, 1, "t", "default")
    assert (json.loads(one.payload), one.idempotency_key, one.timeout_s) == ({"n": 1}, "ключ", 1.5)
    assert (one.attempt, one.max_attempts, one.is_last_attempt) == (1, 1, True)
    again = claim(line, 5, claimed.hints)
    assert [(e.id, e.idempotency_key, e.timeout_s) for e in again.executions] == [(second, None, None)]
    assert json.loads(again.executions[0].payload) == {"text": "é"}
    nothing = claim(line)
    assert (nothing.executions, json.loads(nothing.hints or b"")["lanes"]) == ([], "{}")
    third = q.enqueue()
    assert [e.id for e in claim(line, hints=nothing.hints, look=True).executions] == [third]


def held(q: Queue, line: Line, count: int = 3) -> list[Execution]:
    q.enqueue_many("t", [{}] * count)
    return claim(line).executions


def test_each_write_answers_by_id_and_claim_number(q: Queue, line: Line) -> None:
    a, b, c = rows = held(q, line)
    fences = [(e.id, e.claim_no) for e in rows]
    assert line.run(lease.start(SCOPE.worker_id, rows), 20) == dict.fromkeys(fences, "kept")
    for e in rows:
        e.begun = True
    assert line.run(lease.heartbeat(SCOPE.worker_id, rows, 60), 20) == dict.fromkeys(fences, "kept")
    outcomes = [{"id": a.id, "claim_no": a.claim_no, "success": True, "payload": {"n": 1}}]
    assert line.run(lease.finish(SCOPE.worker_id, outcomes), 20) == {fences[0]: "done"}
    assert line.run(lease.give_back(SCOPE.worker_id, [b]), 20) == {fences[1]: "kept"}
    assert line.run(lease.heartbeat(b"another", rows, 60), 20) == dict.fromkeys(fences, "lost")
    assert line.run(lease.recall(SCOPE.worker_id, [c]), 20) == 0
    assert line.run(lease.recall(SCOPE.worker_id, []), 20) == 1
    assert (q.task(a.id)["status"], q.task(b.id)["give_backs"], q.task(c.id)["status"]) == ("SUCCESSFUL", 1, "PENDING")


def test_an_empty_batch_is_no_error(q: Queue, line: Line) -> None:
    for call in (
        lease.start(b"w", []),
        lease.heartbeat(b"w", [], 30),
        lease.finish(b"w", []),
        lease.give_back(b"w", []),
    ):
        assert line.run(call, 20) == {}


def test_sleeping_and_what_is_left(q: Queue, line: Line) -> None:
    assert line.run(claims.lie_down(SCOPE, 30), 20) is None
    assert q.value("select queues = array['default', 'odd\"\\,{} name'] and prefixes is null from queues.sleeper")
    q.enqueue(scheduled_at="2100-01-01")
    assert line.run(claims.lie_down(SCOPE, 30), 20) > 1e9
    assert line.run(claims.nothing_left(SCOPE, POOLS), 20) is True
    q.enqueue()
    assert line.run(claims.nothing_left(SCOPE, POOLS), 20) is False


def test_a_worker_comes_and_goes(q: Queue, line: Line) -> None:
    types = {"t": {"timeout": 1.5, "max_attempts": 4}}
    line.run(workers.register(SCOPE, "host", 7, "1.0", 3, types, False), 20)
    (row,) = q.rows("select id, hostname, pid, version, pool_size, task_types, takes_unknown from queues.workers")
    assert tuple(row.values()) == (SCOPE.worker_id.decode(), "host", 7, "1.0", 3, ["t"], False)
    q.enqueue("u", queue_name="nobodys")
    ((queue, task_type, age),) = line.run(workers.unserved(90), 20)
    assert (queue, task_type, age >= 0) == ("nobodys", "u", True)
    line.run(workers.listen(), 20)
    line.run(workers.unregister(SCOPE.worker_id), 20)
    assert q.rows("select id from queues.workers") == []
