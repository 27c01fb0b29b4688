"""The order of claims inside a queue, against a model: priority first, then time, then id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import Queue

Key = tuple[int, int, int]
FEW = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Runs of equal rows: lanes much older than others, and lanes alone in their priority, are the hard ones.
runs = st.tuples(st.sampled_from("aaaabbcdefghijkl"), st.integers(-1, 1), st.integers(1, 6), st.integers(1, 12))
rows = st.lists(runs, min_size=1, max_size=25).map(
    lambda drawn: [(name, priority, ago) for name, priority, ago, length in drawn for _ in range(length)]
)
one_lane = st.lists(st.tuples(st.just("a"), st.just(0), st.integers(1, 60)), min_size=1, max_size=30)
steps = st.lists(st.one_of(st.integers(1, 40), rows, one_lane), min_size=1, max_size=12)


@dataclass
class Model:
    """What lies in the queue: the sort key of each row, and which of them a worker's last look has seen."""

    q: Queue
    waiting: dict[int, Key] = field(default_factory=dict)
    unseen: set[int] = field(default_factory=set)
    hints: dict[str, Any] | None = None

    def add(self, new: list[tuple[str, int, int]]) -> None:
        """Rows of (type, priority, seconds ago)."""
        added = self.q.rows(
            "insert into queues.task_runs (task_type, priority, run_after)"
            " select t, p, now() - a * interval '1 second' from unnest(%s::text[], %s::int[], %s::int[]) as u(t, p, a)"
            " returning id, priority, (extract(epoch from run_after) * 1000000)::bigint as at",
            *map(list, zip(*new, strict=True)),
        )
        for row in added:
            self.waiting[row["id"]] = (-row["priority"], row["at"], row["id"])
            self.unseen.add(row["id"])

    def claim(self, wanted: int, hints: dict[str, Any] | None = None) -> list[Key]:
        got = self.q.claim(wanted, hints=hints)
        assert len(got) <= wanted
        looked_anew = bool(got) and got[-1].row["next_hints"]["at"] != (self.hints or {}).get("at")
        self.hints = got[-1].row["next_hints"] if got else None
        keys = [self.waiting.pop(row.id) for row in got]
        self.last_unseen = set(self.unseen)
        if looked_anew:
            self.unseen = set()
        return keys

    def assert_nothing_older_is_left(self, taken: list[Key]) -> None:
        """What the last look has seen is never overtaken; what came later may be, until the next look."""
        for task_id, key in self.waiting.items():
            if task_id not in self.last_unseen:
                assert not any(key < other for other in taken)


def insertion(q: Queue) -> Model:
    q.rows("delete from queues.task_runs")
    return Model(q)


@FEW
@given(
    new=st.one_of(one_lane, rows), sizes=st.lists(st.sampled_from([1, 2, 3, 7, 25, 26, 100]), min_size=1, max_size=10)
)
def test_a_claim_from_the_head_is_exact(q: Queue, new: list[tuple[str, int, int]], sizes: list[int]) -> None:
    model = insertion(q)
    model.add(new)
    for size in sizes:
        expected = sorted(model.waiting.values())[:size]
        assert model.claim(size) == expected


@FEW
@given(
    new=st.one_of(one_lane, rows), sizes=st.lists(st.sampled_from([1, 2, 3, 7, 25, 26, 100]), min_size=1, max_size=10)
)
def test_a_claim_that_goes_on_from_the_last_one_is_exact(
    q: Queue, new: list[tuple[str, int, int]], sizes: list[int]
) -> None:
    model = insertion(q)
    model.add(new)
    for size in sizes:
        expected = sorted(model.waiting.values())[:size]
        assert model.claim(size, model.hints) == expected


@FEW
@given(steps=steps)
def test_rows_that_arrive_in_between_never_let_an_older_one_wait(
    q: Queue, steps: list[int | list[tuple[str, int, int]]]
) -> None:
    model = insertion(q)
    for step in steps:
        if isinstance(step, list):
            model.add(step)
        else:
            model.assert_nothing_older_is_left(model.claim(step, model.hints))
    while model.waiting:
        expected = sorted(model.waiting.values())[:7]
        assert model.claim(7) == expected


@FEW
@given(new=st.one_of(one_lane, rows), sizes=st.lists(st.sampled_from([1, 3, 30]), min_size=2, max_size=10))
def test_a_worker_whose_hints_are_behind_a_rival_claims_in_order(
    q: Queue, new: list[tuple[str, int, int]], sizes: list[int]
) -> None:
    """Two workers by turns: what one has taken, the other's hints don't know."""
    mine, rivals = insertion(q), Model(q)
    mine.add(new)
    rivals.waiting = mine.waiting
    for number, size in enumerate(sizes):
        worker = rivals if number % 2 else mine
        expected = sorted(mine.waiting.values())[:size]
        assert worker.claim(size, worker.hints) == expected


def test_the_order_is_that_of_the_words(q: Queue) -> None:
    named: list[dict[str, Any]] = [
        {"priority": 0, "scheduled_at": "2001-01-01"},
        {"priority": 5, "scheduled_at": "2003-01-01"},
        {"priority": 5, "scheduled_at": "2002-01-01"},
        {"priority": -5, "scheduled_at": "2000-01-01"},
        {"priority": 5, "scheduled_at": "2002-01-01"},
    ]
    ids = [q.enqueue(f"type{n}", **options) for n, options in enumerate(named)]
    assert [row.id for row in q.claim(10)] == [ids[n] for n in (2, 4, 1, 0, 3)]


@pytest.mark.parametrize("each", [1, 20], ids=["by turns", "one after the other"])
def test_a_claim_of_many_types_is_made_in_a_few_steps_however_they_came(q: Queue, each: int) -> None:
    """With the same number of rows of each type looked at, those that came one after the other took fifty steps."""
    q.rows(
        "insert into queues.task_runs (task_type, run_after)"
        " select 'type' || (i / %s) %% 100, now() - interval '1 hour' + i * interval '1 second'"
        " from generate_series(0, 1999) i",
        each,
    )
    steps = "select calls from pg_stat_xact_user_functions where funcname = 'take_merged'"
    with q.admin.transaction():
        q.admin.execute("set local track_functions = 'pl'")
        claimed: list[Any] = q.admin.execute("select id from queues.claim('w', null, null, '30 s', 500)").fetchall()
        calls = q.value(steps)
    ids = [row[0] for row in claimed]
    assert len(ids) == 500
    assert ids == sorted(ids)
    assert calls <= 4


def test_of_a_type_that_comes_often_a_claim_soon_looks_at_enough_rows(q: Queue) -> None:
    """Every second task is of one type, the others of a hundred: as many rows of each would end with the first type."""
    names = ["often" if n % 2 else f"rare{n // 2 % 100}" for n in range(3000)]
    q.rows("insert into queues.task_runs (task_type) select unnest(%s::text[])", names)
    steps = "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions where funcname = 'take_merged'"
    hints, calls = None, []
    for _ in range(4):
        with q.admin.transaction():
            q.admin.execute("set local track_functions = 'pl'")
            before = q.value(steps)
            rows = q.claim(500, hints=hints)
            calls.append(q.value(steps) - before)
        hints = rows[-1].row["next_hints"]
    assert calls[0] <= 5
    assert max(calls[1:]) <= 2


def test_hints_are_read_whatever_the_sessions_format_of_dates_is(q: Queue) -> None:
    """A pooler may give the next claim another session."""
    ids = [q.enqueue(f"t{n % 2}") for n in range(8)]
    claim = "select id, next_hints::text from queues.claim('w', null, null, '30 s', 2, %s)"
    hints, claimed = None, []
    for style in ("German", "SQL, DMY", "Postgres, MDY", "ISO, YMD"):
        with q.admin.transaction():
            q.admin.execute("select set_config('datestyle', %s, true)", (style,))
            rows: list[Any] = q.admin.execute(claim, (hints,)).fetchall()
        hints = rows[-1][1]
        claimed += [row[0] for row in rows]
    assert claimed == ids
