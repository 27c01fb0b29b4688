"""Where a claim starts: hints save the way over dead entries, a look from the head finds what they don't know."""

from __future__ import annotations

import random
import time
from datetime import timedelta
from typing import Any, cast

import pytest

from reproq.db.connect import as_sql

from .conftest import LONG_AGO, Queue, aged, hints_after, wait_until


def test_within_a_second_a_claim_goes_on_where_the_last_one_ended(q: Queue) -> None:
    hints = hints_after(q)
    behind = q.enqueue(scheduled_at=LONG_AGO)
    rows = q.claim(10, hints=hints)
    assert len(rows) == 10
    assert behind not in {row.id for row in rows}


def test_after_a_second_the_head_is_seen_again(q: Queue) -> None:
    hints = hints_after(q)
    urgent = q.enqueue(priority=9)
    behind = q.enqueue(scheduled_at=LONG_AGO)
    other = q.enqueue("another", priority=8)
    assert [row.id for row in q.claim(3, hints=aged(hints, "at"))] == [urgent, other, behind]


def test_after_a_notification_the_head_is_seen_at_once(q: Queue) -> None:
    hints_after(q)
    behind = q.enqueue(scheduled_at=LONG_AGO)
    assert [row.id for row in q.claim(1)] == [behind]


def test_an_urgent_row_is_seen_within_the_look_period(q: Queue) -> None:
    hints = hints_after(q)
    urgent = q.enqueue(priority=9)
    until = time.monotonic() + 5
    while True:
        (row,) = q.claim(1, hints=hints)
        if row.id == urgent:
            break
        hints = row.row["next_hints"]
        q.enqueue()
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_row_that_commits_late_is_found_although_the_hints_are_past_it(q: Queue) -> None:
    app = q.database.connect("app")
    with app.transaction():
        late = q.value("select queues.enqueue('t', scheduled_at => now() - interval '1 minute')", by=app)
        hints = hints_after(q)
        rows = q.claim(50, hints=hints)
    assert late not in {row.id for row in rows}
    assert late in {row.id for row in q.claim(50, hints=aged(rows[-1].row["next_hints"], "at"))}


def test_a_claim_that_comes_back_short_has_looked_from_the_head(q: Queue) -> None:
    hints = hints_after(q)
    q.enqueue("new", scheduled_at=LONG_AGO)
    wait_until(
        lambda: (
            len(q.claim(400, hints=hints)) + q.count("status = 'RUNNING'") > 0 and q.count("status = 'PENDING'") == 0
        )
    )


def test_a_slow_look_stretches_its_period_to_ten_seconds_at_most(q: Queue) -> None:
    hints = hints_after(q) | {"took_ms": 200}
    urgent = q.enqueue(priority=9)
    assert q.claim(1, hints=aged(hints, "at"))[0].id != urgent  # 20 × 200 ms = 4 s
    assert q.claim(1, hints=aged(hints | {"took_ms": 60}, "at"))[0].id == urgent
    long_ago = hints | {"took_ms": 10**9, "at": q.value("select (now() - interval '11 s')::text")}
    second = q.enqueue(priority=9)
    assert q.claim(1, hints=long_ago)[0].id == second


def test_hints_of_another_scope_do_no_harm(q: Queue) -> None:
    hints = hints_after(q)
    mine = q.enqueue("mine", queue_name="mine")
    scopes: list[dict[str, Any]] = [
        {"queues": ["mine"]}, {"prefixes": ["mine"]}, {"pools": [{"free": 5, "types": ["mine"]}]},
        {"pools": [{"free": 0}, {"free": 5, "types": ["mine"]}], "prefixes": ["mi"]},
    ]  # fmt: skip
    for scope in scopes[:3]:
        (row,) = q.claim(10, hints=hints, **scope)
        assert row.id == mine
        q.give_back(row)


def test_how_much_a_pool_has_free_is_no_other_scope(q: Queue) -> None:
    hints = hints_after(q, pools=[{"free": 3, "types": ["x"]}, {"free": 1}])
    behind = q.enqueue(scheduled_at=LONG_AGO)
    rows = q.claim(10, hints=hints, pools=[{"free": 0, "types": ["x"]}, {"free": 10}])
    assert len(rows) == 10
    assert behind not in {row.id for row in rows}


def test_a_worker_with_little_to_do_reclaims_all_the_same(q: Queue) -> None:
    """Each of its claims finds a little, comes back short and looks anew: its hints are never a second old."""
    lost = q.claimed("lost", queue_name="elsewhere", worker="dead")
    q.expire(lost.id)
    q.enqueue()
    hints = q.claim(10, hints=None, queues=["default"])[-1].row["next_hints"]
    lost = q.claimed("lost2", queue_name="elsewhere", worker="dead")
    q.expire(lost.id)

    def trickle() -> bool:
        nonlocal hints
        q.enqueue()
        rows = q.claim(10, hints=hints, queues=["default"])
        hints = rows[-1].row["next_hints"] if rows else hints
        time.sleep(0.01)
        return bool(q.task(lost.id)["status"] == "RETRYING")

    wait_until(trickle, 5)


@pytest.mark.parametrize(
    ("took_ms", "seconds", "looks"),
    [
        (40, 2, True),
        (200, 2, False),
        (200, 5, True),
        (2000, 8, False),
        (2000, 12, True),
        (5000, 12, False),
        (5000, 22, True),
    ],
)
def test_the_longer_a_look_from_the_heads_takes_the_longer_it_is_until_the_next(
    q: Queue, took_ms: int, seconds: float, looks: bool
) -> None:
    hints = hints_after(q) | {"took_ms": took_ms}
    behind = q.enqueue(scheduled_at=LONG_AGO)
    rows = q.claim(10, hints=aged(hints, "at", "headed", seconds=seconds))
    assert (behind in {row.id for row in rows}) is looks


def test_where_looks_take_long_lanes_that_are_not_known_are_looked_for_all_the_same(q: Queue) -> None:
    """Other queues, types before, between and behind the known ones, and other priorities of these."""
    for name in ("b", "c"):
        q.enqueue_many(name, [{}] * 300)
    ours = "array[(select l from unnest(internal.look(null, null, null, '{}')) l where l.task_type = 'b' limit 1)]"
    known = q.value(f"select ({ours})::text")
    others = [
        q.enqueue(name, priority=priority, queue_name=queue)
        for queue in ("aa", "default", "zz")
        for name in ("a", "b-1", "bb", "d")
        for priority in (9, -9)
    ]
    others += [q.enqueue(name, priority=priority) for name in ("b", "c") for priority in (9, -9)]
    behind = q.enqueue("b", scheduled_at=LONG_AGO)
    lanes = "select l.queue_name, l.task_type, l.priority, l.id from unnest(internal.look(null, null, null, %s)) l"
    found = {row.pop("id"): tuple(row.values()) for row in q.rows(lanes, known)}
    assert set(found) > set(others)
    assert sorted(found.values()) == sorted(tuple(row.values())[:3] for row in q.rows(lanes, "{}"))
    assert len(found) == len(others) + 2
    assert behind not in found


def test_a_claim_says_how_long_it_looked_before_it_leased_anything(q: Queue) -> None:
    """The lease of what a look of half a minute finds has only begun when the answer comes."""
    q.enqueue()
    with q.admin.transaction(force_rollback=True):
        definition = str(q.value("select pg_get_functiondef('internal.lanes_of'::regproc)"))
        slow = definition.replace("STABLE", "VOLATILE").replace("begin\n", "begin\n    perform pg_sleep(0.3);\n", 1)
        assert slow.count("pg_sleep") == 1
        q.rows(slow.replace("%", "%%"))
        sent = q.value("select clock_timestamp()")
        (row,) = q.claim(lease="30 seconds")
        before_ms = row.row["next_hints"]["before_ms"]
        assert before_ms >= 300
        leased_after = q.task(row.id)["leased_until"] - timedelta(seconds=30) - sent
        assert timedelta(milliseconds=before_ms) <= leased_after


def test_an_urgent_task_is_found_where_looks_take_long(q: Queue) -> None:
    hints = hints_after(q)
    urgent = q.enqueue(priority=9)
    (row,) = q.claim(1, hints=aged(hints | {"took_ms": 10**9}, "at", seconds=11))
    assert row.id == urgent


@pytest.mark.parametrize(("swept_ms", "found"), [(0.01, ["late", "long-ago"]), (60_000, ["late"])])
def test_where_it_takes_long_to_find_all_leases_that_ran_out_those_of_late_are_looked_for(
    q: Queue, swept_ms: float, found: list[str]
) -> None:
    """Dead entries of ended leases can pile up as long as an old snapshot holds them."""
    hints = hints_after(q) | {"swept_ms": swept_ms}
    for name, seconds in (("late", 1), ("long-ago", 90)):
        row = q.claimed(name, worker="dead")
        q.rows("update queues.task_runs set leased_until = now() - %s * interval '1 s' where id = %s", seconds, row.id)
    q.claim(1, hints=aged(hints, "reclaimed"))
    back = q.rows("select task_type from queues.task_runs where status = 'RETRYING' order by 1")
    assert [row["task_type"] for row in back] == found


def test_a_worker_without_a_free_child_reclaims_too(q: Queue) -> None:
    nothing: dict[str, dict[str, Any]] = {"none": {"max_tasks": 0}, "busy": {"max_tasks": 5, "pools": [{"free": 0}]}}
    for task_type, free in nothing.items():
        row = q.claimed(task_type, worker="dead")
        q.expire(row.id)
        assert q.claim(**free) == []
        assert q.task(row.id)["status"] == "RETRYING"


def test_a_claim_that_finds_work_takes_the_sleep_mark_away(q: Queue) -> None:
    q.rows("select queues.lie_down('w', null, null, '30 s')")
    assert q.claim() == []
    assert q.value("select count(*) from queues.sleeper") == 1
    q.enqueue()
    assert len(q.claim()) == 1
    assert q.value("select count(*) from queues.sleeper") == 0


@pytest.mark.parametrize("known", [[], ["ab"]])
@pytest.mark.parametrize("prefixes", [None, ["a"], ["ab", "b.c"]])
@pytest.mark.parametrize("queues", [None, ["q1", "q10", "nobody's"]])
def test_a_walk_finds_the_head_of_every_lane_that_is_asked_for(
    q: Queue, queues: list[str] | None, prefixes: list[str] | None, known: list[str]
) -> None:
    """Names that are beginnings of others, any priority, due or not; some lanes are claimed empty."""
    rng = random.Random(7)
    names = ["a", "a.b", "ab", "abc", "b", "b.c", "b.c-d", "zz"]
    for _ in range(300):
        q.enqueue(
            rng.choice(names),
            queue_name=rng.choice(["q", "q1", "q10", "q2", "z"]),
            priority=rng.choice([-1_000_000, -1, 0, 1, 1_000_000]),
            scheduled_at=rng.choice([LONG_AGO, q.value("select now() + interval '1 hour'")]),
        )
    q.claim(120, queues=["q1", "z"])
    lane = "row(1, queue_name, task_type, priority, run_after, id, null, null)::internal.lane"
    held = f"array(select {lane} from lanes where task_type = any (%(known)s))"
    text = f"""
        with lanes as (
            select distinct on (queue_name, task_type, priority) queue_name, task_type, priority, run_after, id
            from queues.task_runs
            where status in ('PENDING', 'RETRYING')
              and (%(queues)s::text[] is null or queue_name = any (%(queues)s::text[]))
              and (%(prefixes)s::text[] is null or exists (
                  select from unnest(%(prefixes)s::text[]) p where starts_with(task_type, p)))
            order by queue_name, task_type, priority, run_after, id)
        select (select array_agg(id order by id) from lanes where task_type <> all (%(known)s)) as meant,
               (select array_agg(l.id order by l.id)
                from internal.lanes_of(%(queues)s::text[], %(prefixes)s::text[], {held}) l) as found"""
    (row,) = q.admin.execute(as_sql(text), {"queues": queues, "prefixes": prefixes, "known": known}).fetchall()
    meant, found = cast("tuple[list[int], list[int]]", row)
    assert len(meant) > 3
    assert found == meant
