"""At most so many at once, at most so many a second; and nobody waits behind one that may not run."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from reproq.db.connect import connect
from tests.queue.conftest import wait_until

from .conftest import Flow


def test_a_key_runs_one_at_a_time_unless_it_is_told_otherwise(flow: Flow) -> None:
    flow.enqueue_many("t", [{}] * 5, limit_key="k")
    (held,) = flow.claim(10)
    assert flow.claim(10) == []
    flow.succeed(held)
    assert len(flow.claim(10)) == 1
    flow.limit("key", "k", 3)
    flow.sweep()
    assert len(flow.claim(10)) == 2


@pytest.mark.parametrize(
    ("limits", "at_once"),
    [
        ([("customer:7", 4), ("customer:*", 2), ("*", 3)], 4),
        ([("customer:*", 2), ("*", 3)], 2),
        ([("*", 3)], 3),
        ([("customer:8", 9)], 1),
    ],
)
def test_the_nearest_limit_of_a_key_counts(flow: Flow, limits: list[tuple[str, int]], at_once: int) -> None:
    for name, concurrency in limits:
        flow.limit("key", name, concurrency)
    flow.enqueue_many("t", [{}] * 10, limit_key="customer:7")
    assert len(flow.claim(10)) == at_once


@pytest.mark.parametrize("end", ["succeed", "fail", "give_back", "expire", "cancel", "snooze", "delete"])
def test_however_a_task_ends_its_slot_goes_to_the_next(flow: Flow, end: str) -> None:
    flow.enqueue_many("t", [{}] * 3, limit_key="k")
    (held,) = flow.claim(10)
    if end == "succeed":
        flow.succeed(held)
    elif end == "fail":
        flow.fail(held, retry_in_s=1000)
    elif end == "snooze":
        flow.finish(held, False, snooze_s=1000)
    elif end == "give_back":
        flow.give_back(held)
    elif end == "expire":
        flow.expire(held.id)
        flow.reclaim()
    elif end == "cancel":
        flow.cancel(held.id)
        assert flow.claim(10) == []  # it is still stopping
        flow.succeed(held)
    else:
        flow.soft_delete(held.id)
        assert flow.claim(10) == []
        flow.succeed(held)
    (following,) = flow.claim(10)
    assert (following.id == held.id) == (end == "give_back")
    assert flow.claim(10) == []


def test_an_admitted_task_that_is_cancelled_before_it_runs_leaves_its_slot(flow: Flow) -> None:
    first, second = flow.enqueue_many("t", [{}] * 2, limit_key="k")
    flow.cancel(first)
    assert [row.id for row in flow.claim(10)] == [second]


def test_a_task_that_goes_back_waits_again_in_its_place(flow: Flow) -> None:
    flow.enqueue_many("t", [{}] * 2, limit_key="k")
    (held,) = flow.claim(10)
    flow.fail(held, retry_in_s=0)
    row = flow.task(held.id)
    assert (row["status"], row["waiting_for"], row["limit_slot"]) == ("RETRYING", 1, None)
    urgent = flow.enqueue("t", limit_key="k", priority=5)
    (following,) = flow.claim(10)
    flow.succeed(following)
    assert [row.id for row in flow.claim(10)] == [urgent]


def test_a_task_with_a_key_that_is_replayed_waits_for_a_slot(flow: Flow) -> None:
    task = flow.enqueue("t", limit_key="k", max_attempts=1)
    (held,) = flow.claim(1)
    flow.fail(held)
    flow.enqueue("t", limit_key="k")
    (other,) = flow.claim(10)
    flow.replay(task)
    assert flow.claim(10) == []
    flow.succeed(other)
    assert [row.id for row in flow.claim(10)] == [task]


def test_a_scheduled_task_takes_no_slot_before_it_is_due(flow: Flow) -> None:
    later = flow.enqueue("t", limit_key="k", scheduled_at="2999-01-01")
    now = flow.enqueue("t", limit_key="k")
    assert [row.id for row in flow.claim(10)] == [now]
    flow.set(later, "run_after = now()")
    flow.set(now, "status = 'SUCCESSFUL', result_json = 'null', completed_at = now(), leased_until = null")
    flow.sweep()
    assert [row.id for row in flow.claim(10)] == [later]


def test_a_blocked_key_blocks_nobody_behind_it(flow: Flow) -> None:
    flow.enqueue_many("t", [{}] * 1000, limit_key="k", priority=9)
    free = flow.enqueue("t")
    found = flow.claim(10)
    assert len(found) == 2
    assert free in {row.id for row in found}


def test_a_queue_and_a_type_have_limits_over_all_workers(flow: Flow) -> None:
    flow.enqueue_many("a", [{}] * 10, queue_name="q")
    flow.enqueue_many("b", [{}] * 10, queue_name="q")
    flow.enqueue_many("b", [{}] * 10)
    flow.limit("queue", "q", 4)
    flow.limit("type", "a", 1)
    found = [*flow.claim(50, worker="w/1/a"), *flow.claim(50, worker="w/2/b")]
    counts = Counter((row.row["queue_name"], row.row["task_type"]) for row in found)
    assert counts == {("q", "a"): 1, ("q", "b"): 3, ("default", "b"): 10}
    for row in found:
        flow.succeed(row)
    assert len(flow.claim(50)) == 4


def test_a_limit_counts_what_is_cancelled_and_still_stopping(flow: Flow) -> None:
    flow.limit("queue", "default", 1)
    held = flow.claimed("t")
    flow.enqueue("t")
    flow.cancel(held.id)
    assert flow.claim(10) == []
    flow.succeed(held)
    assert len(flow.claim(10)) == 1


@pytest.mark.parametrize("scope", ["queue", "type", "key"])
def test_a_rate_lets_through_its_bucket_and_then_what_trickles_in(flow: Flow, scope: str) -> None:
    name = {"queue": "default", "type": "t", "key": "k"}[scope]
    flow.limit(scope, name, 1000 if scope == "key" else None, rate=0.001, burst=3)
    flow.enqueue_many("t", [{}] * 10, **({"limit_key": "k"} if scope == "key" else {}))
    assert len(flow.claim(10)) == 3
    flow.rows("update queues.limits set filled_at = filled_at - interval '2000 s'")
    flow.sweep()
    assert len(flow.claim(10)) == 2
    assert flow.claim(10) == []


def test_a_limit_that_is_taken_away_is_gone(flow: Flow) -> None:
    flow.limit("queue", "default", 1)
    flow.enqueue_many("t", [{}] * 5)
    hints = flow.hints(flow.claim(5))
    assert flow.limit("queue", "default") == "removed"
    assert len(flow.claim(5, hints=hints)) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        "'shelf', 'x', 1", "'key', '', 1", "'key', 'x', 0", "'key', 'x', 100001", "'key', 'x', null, 0",
        "'key', 'x', null, 'NaN'",
        "'key', 'x', 1, null, 5", "'key', 'x', null, 1, 0.5", "null, 'x', 1", "'key', null, 1",
    ],
)  # fmt: skip
def test_a_limit_that_makes_no_sense_is_refused(flow: Flow, arguments: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        flow.rows(f"select queues.put_limit({arguments})")
    assert refused.value.sqlstate == "RQ003"


@pytest.mark.parametrize(("scope", "name"), [("key", "k"), ("queue", "default"), ("type", "t")])
@pytest.mark.parametrize("limit", [1, 3])
def test_sixteen_claimers_never_exceed_a_limit_and_finish_all(flow: Flow, scope: str, name: str, limit: int) -> None:
    """Counted by a trigger, whoever leases and whoever lets go."""
    flow.rows(
        "create table public.most (n int); grant all on public.most to public;"
        " create function public.watch() returns trigger language plpgsql as $$ begin"
        " insert into public.most select count(*) from queues.task_runs where leased_until is not null;"
        " return null; end $$;"
        " create trigger watch after update on queues.task_runs for each statement execute function public.watch()"
    )
    flow.limit(scope, name, limit)
    flow.enqueue_many("t", [{}] * 300, **({"limit_key": "k"} if scope == "key" else {}))
    over = threading.Event()

    def run(number: int) -> None:
        with connect(flow.database.dsn, name="test") as conn:
            worker = f"w/{number}/boot"
            while not over.is_set():
                claim = "select id, claim_no from queues.claim(%s, null, null, '30 s', 2, null)"
                rows: list[Any] = conn.execute(claim, (worker,)).fetchall()
                for task, claim_no in rows:
                    if (task + number) % 5 == 0:  # a claimer that dies: its lease runs out
                        conn.execute(
                            "update queues.task_runs set leased_until = now() - interval '1 s' where id = %s", (task,)
                        )
                        continue
                    outcome = {"id": task, "claim_no": claim_no, "success": True}
                    conn.execute("select queues.finish(%s, %s)", (worker, Jsonb([outcome])))
                if not rows:
                    time.sleep(0.005)

    pool = ThreadPoolExecutor(16)
    for number in range(16):
        pool.submit(run, number)
    deadline = time.monotonic() + 60
    flow.rows("update queues.task_types set backoff_base = '1 ms'")
    while flow.count("completed_at is null") and time.monotonic() < deadline:
        flow.rows("update queues.task_runs set run_after = now() where status = 'RETRYING' and run_after > now()")
        time.sleep(0.02)
    over.set()
    pool.shutdown()
    assert flow.count("status = 'SUCCESSFUL'") + flow.count("failure_kind = 'lease_expired'") == 300
    assert flow.value("select max(n) from public.most") == limit


@pytest.mark.parametrize("limit", [{}, {"rate": 100, "burst": 100}], ids=["slots", "rate"])
def test_an_open_transaction_holds_neither_a_key_nor_its_bucket(flow: Flow, limit: dict[str, int]) -> None:
    flow.limit("key", "k:*", 2, **limit)
    flow.enqueue_many("t", [{}] * 3, limit_key="k:1")
    held, _ = flow.claim(10)
    with connect(flow.database.dsn, name="test") as app, app.transaction():
        app.execute("select queues.enqueue('t', limit_key => 'k:1'), queues.enqueue('t', limit_key => 'k:2')")
        flow.rows("set statement_timeout = '5 s'")
        flow.succeed(held)
        assert len(flow.claim(10)) == 1
        assert flow.claim(10) == []
    assert [row.row["task_type"] for row in flow.claim(10)] == ["t"]  # k:2, admitted by the commit


def test_a_task_with_a_key_is_admitted_by_the_commit_of_its_own_transaction(flow: Flow) -> None:
    with flow.admin.transaction():
        first, second = flow.enqueue("t", limit_key="k"), flow.enqueue("t", limit_key="k")
        assert (flow.waiting(first), flow.waiting(second)) == (1, 1)
    assert (flow.waiting(first), flow.waiting(second)) == (0, 1)


def test_a_transaction_leaves_room_in_the_lock_table_however_many_keys_it_names(flow: Flow) -> None:
    locks = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
    with flow.admin.transaction():
        flow.rows("select queues.enqueue('t', limit_key => 'k:' || i) from generate_series(1, 1500) i")
        flow.rows("set constraints all immediate")
        assert flow.value(locks) == 1000
    assert flow.count("waiting_for = 0") == 1000

    def all_admitted() -> bool:
        flow.sweep()
        return flow.count("waiting_for = 0") == 1500

    wait_until(all_admitted)


def _parked(flow: Flow, keys: int, run_after: str) -> None:
    flow.rows(
        "insert into queues.task_runs (task_type, queue_name, priority, run_after, payload_json, spec_hash,"
        f" max_attempts, limit_key, waiting_for) select 't', 'default', 0, {run_after}, '{{}}', '', 3, 'a:' || i, 1"
        f" from generate_series(1, {keys}) i"
    )


def test_what_falls_due_is_admitted_however_many_keys_wait_before_it(flow: Flow) -> None:
    _parked(flow, 30000, "now() + interval '1 day'")
    last = flow.enqueue("t", limit_key="z", scheduled_at="2999-01-01")
    flow.set(last, "run_after = now()")
    flow.sweep()
    assert [row.id for row in flow.claim(10)] == [last]


def test_the_walk_along_the_keys_goes_on_where_it_ended(flow: Flow) -> None:
    _parked(flow, 30000, "now() + interval '1 day'")
    last = flow.enqueue("t", limit_key="z", scheduled_at="2999-01-01")
    flow.set(last, "run_after = now() - interval '1 hour'")  # long ago: only the walk finds it

    def swept() -> bool:
        flow.rows("update internal.flow set swept_at = now() - interval '2 s'")
        flow.rows("select internal.sweep_keys()")
        return flow.waiting(last) == 0

    wait_until(swept)
