"""Many types in one queue: what a claim doesn't need lies in a bundle, and the order is exact to half a second."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from .conftest import LONG_AGO, Claimed, Queue

HALF_A_SECOND = timedelta(seconds=0.5)
ADD = """
    insert into queues.task_runs (task_type, priority, run_after)
    select * from unnest(%s::text[], %s::int[], %s::timestamptz[]) returning id, priority, run_after"""


def add(q: Queue, rows: list[tuple[str, int, datetime]]) -> dict[int, tuple[int, datetime]]:
    """Rows of (type, priority, due time): their ids with what a claim orders by."""
    added = q.rows(ADD, *map(list, zip(*rows, strict=True)))
    return {row["id"]: (-row["priority"], row["run_after"]) for row in added}


def claimed_by(q: Queue, sizes: list[int]) -> list[list[int]]:
    """The ids of claims that go on from one another, until nothing is left."""
    found: list[list[int]] = []
    hints = None
    while rows := q.claim(sizes[len(found) % len(sizes)], hints=hints):
        hints = rows[-1].row["next_hints"]
        found.append([row.id for row in rows])
    return found


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_claimed_long_before_what_was_due_earlier(q: Queue, seed: int) -> None:
    """Types that come by turns, at random and in blocks; few tasks of each, or some in two priorities."""
    rng = random.Random(seed)
    now = q.value("select now()")
    types = rng.choice([250, 600])
    kinds: list[Callable[[int], int]] = [
        lambda n: n % types,
        lambda n: n // 5,
        lambda _n: rng.randrange(types),
        lambda n: rng.randrange(4) * n,
    ]

    def due(n: int) -> datetime:
        early = timedelta(seconds=rng.choice([3, 15]) * (3000 - n) / 3000)
        return now - early  # type: ignore[no-any-return]

    waiting = add(q, [(f"t{kinds[seed](n)}", rng.choice([0, 0, 7]), due(n)) for n in range(3000)])
    for ids in claimed_by(q, [1, 7, 500, 60]):
        taken = [waiting.pop(task) for task in ids]
        first = min(waiting.values(), default=None)
        for priority, at in taken:
            assert first is None or (priority, at - HALF_A_SECOND) <= first
    assert waiting == {}


def test_what_many_types_brought_by_turns_is_claimed_from_a_few_of_them_at_a_time(q: Queue) -> None:
    """Each type is a search of its own in the index: five hundred of them cost more than what they found."""
    q.rows("insert into queues.task_runs (task_type) select 't' || i % 1000 from generate_series(1, 20000) i")
    searches = "select pg_stat_get_xact_numscans('queues.task_runs_claim'::regclass)"
    hints = q.claim(500)[-1].row["next_hints"]
    made = []
    for _ in range(5):
        with q.admin.transaction():
            before = q.value(searches)
            just_looked = {"at": q.value("select clock_timestamp()::text")}
            rows = q.claim(500, hints=hints | just_looked)
            made.append(q.value(searches) - before)
        assert len(rows) == 500
        hints = rows[-1].row["next_hints"]
    assert max(made) < 120


def test_workers_among_many_types_take_different_tasks_and_as_many_as_they_want(q: Queue) -> None:
    q.rows("insert into queues.task_runs (task_type) select 't' || i % 400 from generate_series(1, 4000) i")
    rival = q.database.connect("worker")
    taken: list[int] = []
    with rival.transaction():
        taken += ids_of(q, rival, "rival")
        taken += ids_of(q, q.admin, "w")
    assert len(taken) == len(set(taken)) == 600


@pytest.mark.parametrize("types", [2, 20, 150, 400])
def test_behind_what_a_rival_holds_the_order_goes_on(q: Queue, types: int) -> None:
    """And not with one type to its end, while tasks of the others wait that are due a minute before."""
    q.rows(
        "insert into queues.task_runs (task_type, run_after)"
        " select 't' || i %% %s, now() - interval '100 s' + i * interval '50 ms' from generate_series(1, 1999) i",
        types,
    )
    rival = q.database.connect("worker")
    with rival.transaction():
        ids_of(q, rival, "rival")
        hints = None
        for size in (5, 40, 300):  # the first one's hints end among what the rival holds
            rows = q.claim(size, hints=hints)
            hints = rows[-1].row["next_hints"]
            assert len(rows) == size
    in_order = "select run_after from queues.task_runs order by run_after offset 300 + 345 - 1 limit 1"
    assert max(row.row["run_after"] for row in rows) - q.value(in_order) <= HALF_A_SECOND


def test_types_whose_tasks_a_rival_holds_dont_hide_the_others(q: Queue) -> None:
    hints = hints_among_many(q)
    rival = q.database.connect()
    with rival.transaction():
        rival.execute("select id from queues.task_runs where substr(task_type, 2)::int < 250 for update")
        rows = q.claim(300, hints=hints)
    assert len(rows) == 300
    assert all(int(row.row["task_type"][1:]) >= 250 for row in rows)


def ids_of(q: Queue, by: Any, worker: str) -> list[int]:
    with by.cursor(row_factory=dict_row) as cursor:
        cursor.execute("select id from queues.claim(%s, null, null, '30 s', 300)", [worker])
        return [row["id"] for row in cursor.fetchall()]


def hints_among_many(q: Queue, types: int = 400, each: int = 5, **named: Any) -> dict[str, Any]:
    q.rows(
        "insert into queues.task_runs (task_type) select 't' || i %% %s from generate_series(1, %s) i",
        types, types * each,
    )  # fmt: skip
    hints = dict(q.claim(3, **named)[-1].row["next_hints"])
    assert hints["bundles"]
    return hints


def test_an_urgent_task_is_found_among_many_types_where_looks_take_long(q: Queue) -> None:
    hints = hints_among_many(q) | {"took_ms": 10**9, "at": LONG_AGO}
    urgent = q.enqueue("t399", priority=9)
    (row,) = q.claim(1, hints=hints)
    assert row.id == urgent
    next_hints = row.row["next_hints"]
    known = "unnest(internal.unbundled((internal.read_hints(%s, %s)).lanes)) l"
    (lanes,) = q.rows(
        f"select count(*) as all, count(distinct (l.task_type, l.priority)) as different from {known}",
        Jsonb(next_hints), next_hints["scope"],
    )  # fmt: skip
    assert lanes["all"] == lanes["different"] > 400


def test_a_limited_type_among_many_keeps_its_limit(q: Queue) -> None:
    q.call("put_limit", scope="type", name="t399", concurrency=2)
    try:
        claims: list[Claimed] = []
        hints = hints_among_many(q)
        while rows := q.claim(200, hints=hints):
            claims += rows
            hints = rows[-1].row["next_hints"]
    finally:
        q.call("put_limit", scope="type", name="t399")
    assert [row.row["task_type"] for row in claims].count("t399") == 2
    assert len(claims) == 2000 - 3 - 3


def test_a_pool_that_serves_one_type_gets_it_from_among_many(q: Queue) -> None:
    pools = [{"free": 1, "types": ["t399"]}, {"free": 300}]
    hints = hints_among_many(q, pools=pools)
    rows = q.claim(300, hints=hints, pools=[{"free": 2, "types": ["t399"]}, {"free": 100}])
    types = [row.row["task_type"] for row in rows]
    assert (types.count("t399"), len(types)) == (2, 102)


def test_ids_may_be_billions_apart(q: Queue) -> None:
    """An old task of one type, and one of another in a system that has seen a billion since."""
    old = q.enqueue("a")
    q.rows("select setval(pg_get_serial_sequence('queues.task_runs', 'id'), 3000000000)")
    new = q.enqueue("b")
    assert [row.id for row in q.claim(5)] == [old, new]
