"""The plans of the hot statements, counted: index entries read, and never a scan of the table.

The counters of the running transaction (pg_stat_get_xact_…) need no flush and see nobody else. What statistics say of
the table is varied: a stale "this partial index is empty" once made a finish scan it, 500 tasks a second instead of
55,000.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from reproq.db.connect import connect
from tests.conftest import Database

from .conftest import Claimed, Queue

BIG = 12_000
BATCH = 100
INDEXES = ("claim", "lease", "idempotency", "unique_active", "unique_waiting", "failed", "pkey")


def fill(q: Queue, leased: int = 0) -> None:
    q.rows(
        "insert into queues.task_runs (task_type, queue_name, priority, run_after)"
        " select 't' || n %% 3, 'q' || n %% 2, n %% 2, now() - interval '1 hour' from generate_series(1, %s) n",
        BIG,
    )
    q.rows(
        "insert into queues.task_runs (task_type, status, worker_id, leased_until, claim_no, attempt_count, queue_name)"
        " select 'x', 'RUNNING', 'other', now() + interval '1 hour', 1, 1, 'q9' from generate_series(1, %s)",
        leased,
    )


def fresh(q: Queue) -> None:
    fill(q, leased=3000)
    q.rows("analyze queues.task_runs")


def empty_statistics_of_a_big_table(q: Queue) -> None:
    q.rows("vacuum analyze queues.task_runs")
    fill(q, leased=3000)


def keep_statistics(q: Queue, change: str) -> None:
    """Change the table and clean up behind it, while all that the planner knows stays as it was."""
    (known,) = q.rows("select reltuples, relpages from pg_class where oid = 'queues.task_runs'::regclass")
    q.rows(change)
    q.rows("vacuum (truncate off) queues.task_runs")
    q.rows(
        "update pg_class set reltuples = %s, relpages = %s where oid = 'queues.task_runs'::regclass", *known.values()
    )


def nothing_leased_say_the_statistics(q: Queue) -> None:
    fill(q)
    q.rows("vacuum analyze queues.task_runs")
    leased = "status = 'RUNNING', worker_id = 'other', leased_until = now() + interval '1 h'"
    keep_statistics(q, f"update queues.task_runs set {leased} where queue_name = 'q1'")


def big_statistics_of_an_empty_table(q: Queue) -> None:
    fill(q, leased=3000)
    q.rows("analyze queues.task_runs")
    keep_statistics(q, "delete from queues.task_runs")
    q.rows(
        "insert into queues.task_runs (task_type, queue_name, run_after)"
        " select 't' || n %% 3, 'q' || n %% 2, now() - interval '1 hour' from generate_series(1, %s) n", BATCH * 4,
    )  # fmt: skip


def never_analyzed(q: Queue) -> None:
    fill(q, leased=3000)


STATISTICS = [
    fresh,
    empty_statistics_of_a_big_table,
    nothing_leased_say_the_statistics,
    big_statistics_of_an_empty_table,
    never_analyzed,
]


class Counted:
    """What one statement reads, by the counters of its transaction."""

    def __init__(self, q: Queue) -> None:
        self.q = q

    def counters(self) -> dict[str, int]:
        reads = ", ".join(
            f"pg_stat_get_xact_tuples_returned('queues.task_runs_{name}'::regclass) as {name}" for name in INDEXES
        )
        (row,) = self.q.rows(
            f"select {reads}, pg_stat_get_xact_numscans('queues.task_runs'::regclass) as scans,"
            " pg_stat_get_xact_numscans('queues.task_runs_lease'::regclass) as lease_scans"
        )
        return row

    def run(self, act: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
        with self.q.admin.transaction():
            before = self.counters()
            answer = act()
            after = self.counters()
        return answer, {name: after[name] - before[name] for name in after}


@pytest.fixture(params=STATISTICS, ids=lambda make: make.__name__)
def big(database: Database, request: pytest.FixtureRequest) -> Queue:
    q = Queue(database)
    q.rows("alter table queues.task_runs set (autovacuum_enabled = false)")
    request.param(q)
    return q


def test_no_hot_statement_scans_the_table_or_what_it_does_not_need(big: Queue) -> None:
    """One test for all of them: filling the table is the slow part."""
    counted = Counted(big)
    hints = None
    for _ in range(2):  # the second goes on from the hints of the first
        held, reads = counted.run(partial(big.claim, BATCH, hints=hints))
        assert len(held) == BATCH
        hints = held[-1].row["next_hints"]
        assert reads["scans"] == 0
        assert reads["claim"] < 20 * BATCH
        assert reads["pkey"] <= 2 * BATCH
        assert reads["lease"] == 0
    one_lane, reads = counted.run(lambda: big.claim(BATCH, worker="v", queues=["q0"], prefixes=["t1"]))
    assert one_lane
    assert (reads["scans"], reads["claim"] < 6 * BATCH) == (0, True)

    ids = {"worker_id": "w", "ids": [row.id for row in held], "claim_nos": [row.claim_no for row in held]}
    half = {name: value if name == "worker_id" else value[:50] for name, value in ids.items()}
    outcomes = Jsonb([{**row.fence, "success": n % 4 > 0, "error": "x"} for n, row in enumerate(held[50:])])
    statements: dict[str, Callable[[], Any]] = {
        "start": lambda: big.call("start", **ids),
        "heartbeat": lambda: big.call("heartbeat", lease="30 s", **ids),
        "finish": lambda: big.call("finish", worker_id="w", outcomes=outcomes),
        "give_back": lambda: big.call("give_back", **half),
    }
    for name, act in statements.items():
        _, reads = counted.run(act)
        assert (name, reads["scans"], reads["lease_scans"]) == (name, 0, 0)
        assert reads["pkey"] <= 5 * BATCH, name
        assert sum(reads[index] for index in INDEXES[:-1]) == 0, name


def test_a_reclaim_reads_the_expired_and_no_other(big: Queue) -> None:
    rows = big.claim(20, worker="dead")
    big.rows("update queues.task_runs set leased_until = now() - interval '1 s' where worker_id = 'dead'")
    count, reads = Counted(big).run(big.reclaim)
    assert count == len(rows) == 20
    assert reads["scans"] == 0
    assert reads["lease"] <= 20 + 20
    assert reads["claim"] == 0


def test_the_small_questions_read_little(big: Queue) -> None:
    counted = Counted(big)
    questions: dict[str, Callable[[], Any]] = {
        "lie_down": lambda: big.rows("select queues.lie_down('w', null, null, '30 s')"),
        "unserved": lambda: big.rows("select * from queues.unserved()"),
        "enqueue": lambda: big.enqueue("t", idempotency_key="k", unique_among="waiting"),
        "enqueue again": lambda: big.enqueue("t", idempotency_key="k", unique_among="waiting"),
        "twin": lambda: big.enqueue("t", unique_among="waiting"),
        "cancel": lambda: big.cancel(1),
        "status": lambda: big.rows("select * from queues.task_status(2)"),
        "look": lambda: look(big, 1, 50),
    }
    for name, ask in questions.items():
        _, reads = counted.run(ask)
        assert (name, reads["scans"]) == (name, 0)
        assert sum(reads[index] for index in INDEXES) < 200, name


def test_what_waits_behind_a_pause_is_not_read(database: Database) -> None:
    q = Queue(database)
    for number in range(200):
        q.enqueue(f"t{number}", queue_name="paused")
    q.call("pause_queue", queue_name="paused")
    free = q.enqueue("t", queue_name="z")
    (row,), reads = Counted(q).run(lambda: q.claim(5))
    assert row.id == free
    assert reads["claim"] < 20


@pytest.mark.parametrize("first", [1, 40, 1250])
def test_plans_of_a_newborn_queue_do_not_outlive_it(database: Database, first: int) -> None:
    """A plan that is kept from when the table was tiny must not read all of it once it has grown."""
    q = Queue(database)
    q.rows("alter table queues.task_runs set (autovacuum_enabled = false)")
    q.rows("truncate queues.task_runs")
    q.rows("update pg_class set reltuples = -1, relpages = 0 where oid = 'queues.task_runs'::regclass")
    grow = "insert into queues.task_runs (task_type) select 't' from generate_series(1, %s)"
    with connect(database.dsn, name="a session that keeps its plans") as session:
        q.admin = session
        q.rows(grow, first + 20)
        for _ in range(8):
            held = q.claim(2)
            q.call("heartbeat", **fences(held), lease="30 s")
            q.call("start", **fences(held))
            q.call("finish", worker_id="w", outcomes=Jsonb([{**row.fence, "success": True} for row in held]))
            look(q, 1, first)
        q.rows(grow, BIG)
        counted = Counted(q)
        held, reads = counted.run(lambda: q.claim(BATCH))
        assert reads["pkey"] <= 2 * BATCH
        statements: dict[str, Callable[[], Any]] = {
            "heartbeat": lambda: q.call("heartbeat", **fences(held), lease="30 s"),
            "start": lambda: q.call("start", **fences(held)),
            "finish": lambda: q.call(
                "finish", worker_id="w", outcomes=Jsonb([{**row.fence, "success": True} for row in held])
            ),
            "look": lambda: look(q, held[0].id, BATCH),
        }
        for name, act in statements.items():
            _, reads = counted.run(act)
            assert (name, reads["scans"]) == (name, 0)
            assert reads["pkey"] <= 6 * BATCH, name  # the entries of a row's dead versions count too


def look(q: Queue, first: int, count: int) -> None:
    """As the gateway looks at the tasks that somebody waits for."""
    ids = list(range(first, first + count))
    q.rows("select * from queues.watch_tasks(%s, %s::text[])", ids, ["1.RUNNING"] * count)


def fences(held: list[Claimed]) -> dict[str, object]:
    return {"worker_id": "w", "ids": [row.id for row in held], "claim_nos": [row.claim_no for row in held]}


def test_a_function_that_forbids_scans_is_not_compiled_for_the_price_of_one(database: Database) -> None:
    """Before PostgreSQL 18 a forbidden scan that had to be was dear enough for JIT: 8 ms a call."""
    compiled = (
        "select oid::regprocedure::text from pg_proc"
        " where 'enable_seqscan=off' = any (proconfig) and not 'jit=off' = any (proconfig)"
    )
    assert database.execute(compiled) == []
