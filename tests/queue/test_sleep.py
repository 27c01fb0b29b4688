"""Who sleeps is woken, nobody else; and what is said of work that nobody does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection

from .conftest import LONG_AGO, Queue


@pytest.fixture
def ears(q: Queue) -> Iterator[Connection]:
    conn = q.database.connect("worker")
    conn.execute("listen reproq")
    yield conn
    conn.execute("unlisten *")


def heard(ears: Connection) -> list[str]:
    ears.execute("select 1")
    return [notify.payload for notify in ears.notifies(timeout=0)]


def sleep(q: Queue, queues: list[str] | None = None, prefixes: list[str] | None = None, expiry: str = "30 s") -> Any:
    return q.value("select extract(epoch from queues.lie_down('sleeper', %s, %s, %s))", queues, prefixes, expiry)


WAYS = [
    "enqueue('a.b')",
    "enqueue_once('a.b')",
    "enqueue_many('a.b', array['{}', '{}']::jsonb[])",
    "enqueue_system('a.b')",
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("queues", "prefixes", "woken"),
    [
        (None, None, True), (["default"], ["a."], True), (["x", "default"], ["x", "a.b"], True),
        (["other"], None, False), (None, ["a_"], False), ([], None, False), (None, [], False),
    ],
)  # fmt: skip
def test_an_enqueue_wakes_who_sleeps_on_its_queue_and_type(
    q: Queue, ears: Connection, way: str, queues: list[str] | None, prefixes: list[str] | None, woken: bool
) -> None:
    sleep(q, queues, prefixes)
    q.rows(f"select queues.{way}")
    assert heard(ears) == (["default"] if woken else [])


def test_nobody_asleep_nobody_woken(q: Queue, ears: Connection) -> None:
    q.enqueue()
    sleep(q, expiry="-1 s")
    q.enqueue()
    assert heard(ears) == []


def test_a_task_of_the_future_wakes_nobody(q: Queue, ears: Connection) -> None:
    sleep(q)
    q.enqueue(scheduled_at="2100-01-01")
    q.enqueue_many("t", [{}], scheduled_at="2100-01-01")
    assert heard(ears) == []


def test_a_duplicate_wakes_nobody(q: Queue, ears: Connection) -> None:
    q.enqueue(idempotency_key="k", scheduled_at="2100-01-01")
    sleep(q)
    q.enqueue(idempotency_key="k")
    assert heard(ears) == []


def test_a_duplicate_that_makes_a_waiting_task_due_wakes(q: Queue, ears: Connection) -> None:
    q.enqueue(unique_among="waiting", scheduled_at="2100-01-01")
    sleep(q)
    q.enqueue(unique_among="waiting")
    assert heard(ears) == ["default"]


def test_a_replay_wakes(q: Queue, ears: Connection) -> None:
    task_id = q.enqueue()
    q.cancel(task_id)
    sleep(q)
    q.replay(task_id)
    assert heard(ears) == ["default"]


def test_a_cancel_tells_the_worker_that_runs_it(q: Queue, ears: Connection) -> None:
    """By its name alone: everybody may listen, and the last part of its id is its fence."""
    row = q.claimed(worker="w/1/secret")
    q.cancel(row.id)
    assert heard(ears) == ["cancel w/1"]


def test_lying_down_answers_when_the_next_task_falls_due(q: Queue) -> None:
    assert sleep(q) is None
    q.enqueue("late", scheduled_at="2100-01-01")
    row = q.claimed("retried", queue_name="x")
    q.fail(row, retry_in_s=60)
    q.enqueue("other", queue_name="y", scheduled_at=str(q.value("select now() + interval '10 s'")))
    assert 55 < float(sleep(q, queues=["default", "x"])) <= 60
    assert float(sleep(q, prefixes=["la"])) > 1e9
    assert 5 < float(sleep(q)) <= 10
    assert sleep(q, prefixes=["none"]) is None


def test_a_mark_lasts_a_minute_at_most_and_is_one_per_worker(q: Queue) -> None:
    sleep(q, expiry="1 hour")
    assert q.value("select until - now() <= interval '61 s' from queues.sleeper")
    sleep(q, ["a"], ["b"], "5 s")
    assert q.value(
        "select (queues, prefixes) = (array['a'], array['b']) and until < now() + interval '6 s' from queues.sleeper"
    )


def test_a_worker_that_goes_leaves_neither_mark_nor_row(q: Queue) -> None:
    sleep(q)
    q.call(
        "register_worker",
        worker_id="sleeper",
        hostname="h",
        pid=1,
        version="1",
        queues=None,
        prefixes=None,
        pool_size=1,
        types={},
    )
    q.rows("select queues.unregister_worker('sleeper')")
    assert q.rows("select worker_id from queues.sleeper union all select id from queues.workers") == []


def nothing_left(q: Queue, queues: list[str] | None = None, prefixes: list[str] | None = None) -> Any:
    return q.value("select queues.nothing_left(%s, %s)", queues, prefixes)


def test_something_is_left_while_a_row_is_leased_retries_or_is_due(q: Queue) -> None:
    assert nothing_left(q)
    q.enqueue(scheduled_at="2100-01-01")
    q.soft_delete(q.enqueue())
    q.set(q.enqueue(), "waiting_for = 1")
    assert nothing_left(q)
    q.enqueue("a.b", queue_name="x")
    for leased in (False, True):
        assert not leased or len(q.claim()) == 1
        assert not nothing_left(q)
        assert not nothing_left(q, ["x"], ["a."])
        assert nothing_left(q, ["y"])
        assert nothing_left(q, None, ["a_"])


def test_what_no_pool_serves_is_nobodys(q: Queue) -> None:
    q.enqueue("a")
    for pools, nothing in (
        ([{"free": 1}], False),
        ([{"free": 0, "types": ["a"]}], False),
        ([{"free": 1, "types": ["b"]}], True),
        ([{"free": 0, "never": True, "prefixes": ["a"]}, {"free": 1}], True),
    ):
        assert q.value("select queues.nothing_left(null, null, %s)", Jsonb(pools)) is nothing


def test_a_retry_far_ahead_and_a_task_still_stopping_are_left(q: Queue) -> None:
    row = q.claimed()
    q.fail(row, retry_in_s=3600)
    assert not nothing_left(q)
    q.cancel(row.id)
    assert nothing_left(q)
    row = q.claimed()
    q.cancel(row.id)
    assert not nothing_left(q)
    q.give_back(row)
    assert nothing_left(q)


def unserved(q: Queue) -> set[tuple[str, str]]:
    return {(row["queue_name"], row["task_type"]) for row in q.rows("select * from queues.unserved()")}


def register(q: Queue, worker: str = "w", **named: Any) -> None:
    arguments = {
        "hostname": "h",
        "pid": 1,
        "version": "1",
        "queues": None,
        "prefixes": None,
        "pool_size": 1,
        "types": {},
    }
    q.call("register_worker", worker_id=worker, **arguments | named)


def test_what_no_live_worker_serves_is_listed(q: Queue) -> None:
    q.enqueue("a.b", queue_name="x", scheduled_at=LONG_AGO)
    q.enqueue("a.b", queue_name="x", priority=3)
    q.enqueue("a.b", queue_name="y")
    q.enqueue("later", scheduled_at="2100-01-01")
    assert unserved(q) == {("x", "a.b"), ("y", "a.b")}
    assert q.value("select waiting > interval '20 years' from queues.unserved() where queue_name = 'x'")
    register(q, queues=["x"], prefixes=["a."])
    assert unserved(q) == {("y", "a.b")}
    register(q, "w2", queues=["y"], types={"c": {}}, takes_unknown=False)
    assert unserved(q) == {("y", "a.b")}
    register(q, "w2", queues=["y"], types={"a.b": {}}, takes_unknown=False)
    assert unserved(q) == set()
    q.rows("update queues.workers set last_heartbeat = now() - interval '2 minutes'")
    assert unserved(q) == {("x", "a.b"), ("y", "a.b")}


@pytest.mark.parametrize("task_type", ["db_function", "email", "sms"])
def test_a_built_in_type_is_served_by_who_names_it_only(q: Queue, task_type: str) -> None:
    """A worker without a provider takes unknown types, and leaves email alone all the same."""
    q.enqueue("a.b")
    q.rows("update queues.task_runs set task_type = %s", task_type)
    register(q)
    assert unserved(q) == {("default", task_type)}
    register(q, types={task_type: {}})
    assert unserved(q) == set()


def test_what_the_children_report_of_their_types_is_kept(q: Queue) -> None:
    q.declare("t", max_attempts=5, timeout=2.5, lease=60, backoff_base=2, backoff_cap=20, dead_letter_type="dead")
    (row,) = q.rows("select * from queues.task_types")
    written = row["updated_at"]
    assert (row["max_attempts"], row["timeout_s"], row["dead_letter_type"]) == (5, 2.5, "dead")
    assert [row[name].total_seconds() for name in ("lease", "backoff_base", "backoff_cap")] == [60, 2, 20]
    q.declare("t", max_attempts=5, timeout=2.5, lease=60, backoff_base=2, backoff_cap=20, dead_letter_type="dead")
    assert q.value("select updated_at from queues.task_types") == written
    q.declare("t")
    (row,) = q.rows("select * from queues.task_types")
    assert row["max_attempts"] is row["lease"] is None


def test_a_sleep_mark_lasts_from_when_the_search_for_what_falls_due_is_over(q: Queue) -> None:
    """Among the dead entries that an old snapshot keeps that takes longer than the mark lasts."""
    with q.admin.transaction(force_rollback=True):
        definition = str(q.value("select pg_get_functiondef('internal.lanes_of'::regproc)"))
        slow = definition.replace("STABLE", "VOLATILE").replace("begin\n", "begin\n    perform pg_sleep(0.3);\n", 1)
        q.rows(slow.replace("%", "%%"))
        q.rows("select queues.lie_down('w', null, null, '0.2 s')")
        assert q.value("select until - clock_timestamp() > interval '0.1 s' from queues.sleeper")
