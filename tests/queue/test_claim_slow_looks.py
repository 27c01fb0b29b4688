"""What a claim does that is told to look, and where looks take long; what an empty one tells."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import LONG_AGO, Queue, aged, hints_after


def told_to_look(hints: dict[str, Any], **more: Any) -> dict[str, Any]:
    """As a worker brings them to its first claim after a notification."""
    return hints | {"look": True} | more


def test_a_claim_that_is_told_to_look_sees_the_head_at_once(q: Queue) -> None:
    hints = hints_after(q)
    behind = q.enqueue(scheduled_at=LONG_AGO)
    assert [row.id for row in q.claim(1, hints=told_to_look(hints, took_ms=49))] == [behind]
    assert "look" not in q.claim(1, hints=told_to_look(hints))[0].row["next_hints"]


def test_where_looks_take_long_a_claim_that_is_told_to_look_finds_what_is_beside_before_it_searches_the_heads(
    q: Queue,
) -> None:
    hints = told_to_look(hints_after(q), took_ms=3000)
    behind = q.enqueue(scheduled_at=LONG_AGO)
    urgent = q.enqueue(priority=9)
    rows = q.claim(10, hints=aged(hints, "headed", seconds=13))
    assert rows[0].id == urgent
    assert behind not in {row.id for row in rows}


def test_one_notification_after_the_other_doesnt_keep_a_claim_from_the_heads(q: Queue) -> None:
    """Neither when each claim after it is told to look, nor when it is followed by one that isn't."""
    for told, seconds in ((True, 25), (False, 13)):
        hints = aged(hints_after(q) | {"took_ms": 3000}, "at", "headed", seconds=13)
        behind = q.enqueue(scheduled_at=LONG_AGO)
        urgent = q.enqueue(priority=9)
        (row,) = q.claim(1, hints=told_to_look(hints))
        assert row.id == urgent
        hints = aged(row.row["next_hints"], "headed", seconds=seconds)
        (row,) = q.claim(1, hints=told_to_look(hints) if told else hints)
        assert row.id == behind


@pytest.mark.parametrize(("seconds", "searches"), [(60, True), (13, True), (5, False)])
def test_where_nothing_is_beside_it_searches_the_heads_as_often_as_looks_may_take_time(
    q: Queue, seconds: float, searches: bool
) -> None:
    hints = told_to_look(hints_after(q), took_ms=3000)
    q.claim(400)
    behind = q.enqueue(scheduled_at=LONG_AGO)
    rows = q.claim(10, hints=aged(hints, "headed", seconds=seconds))
    assert [row.id for row in rows] == [behind] * searches


def test_where_looks_take_long_an_exhausted_lane_is_known_on(q: Queue) -> None:
    """Else each task that comes into it would be found behind all the dead entries of those before it."""
    for name in ("t", "u") * 3:
        q.enqueue(name)
    hints = dict(q.claim(1)[0].row["next_hints"]) | {"took_ms": 10**9}
    rows = q.claim(10, hints=hints)
    hints = dict(rows[-1].row["next_hints"])
    assert q.count("status = 'PENDING'") == 0
    starts = q.rows("select l.task_type, l.run_after, l.id from unnest((%s)::internal.lane[]) l", hints["lanes"])
    last = {row.row["task_type"]: (row.row["run_after"], row.id) for row in rows}
    assert {start["task_type"]: (start["run_after"], start["id"]) for start in starts} == last
    behind = [q.enqueue(name, scheduled_at=LONG_AGO) for name in ("t", "u")]
    new = [q.enqueue(name) for name in ("t", "u")]
    assert [row.id for row in q.claim(10, hints=hints)] == new
    assert [row.id for row in q.claim(10)] == behind


def test_where_looks_are_short_hints_forget_an_exhausted_lane(q: Queue) -> None:
    q.enqueue()
    assert q.claim(10)[-1].row["next_hints"]["lanes"] == "{}"


def test_no_more_than_two_hundred_lanes_are_known_on_that_way(q: Queue) -> None:
    """Each task with a priority of its own must not make the hints grow without end."""
    hints = hints_after(q)
    for start in (1, 151, 301):
        for priority in range(start, start + 150):
            q.enqueue(priority=priority)
        rows = q.claim(150, hints=told_to_look(hints, took_ms=10**9))
        assert {row.row["priority"] for row in rows} == set(range(start, start + 150))
        hints = dict(rows[-1].row["next_hints"])
    assert q.value("select cardinality((%s)::internal.lane[])", hints["lanes"]) == 200 + 1  # where it ended


def empty(q: Queue, hints: dict[str, Any], **named: Any) -> dict[str, Any]:
    """The hints of a claim that finds nothing."""
    with q.admin.transaction():
        assert q.claim(**({"max_tasks": 10} | named), hints=hints) == []
        return dict(q.value("select current_setting('reproq.next_hints')::jsonb"))


def test_a_claim_that_finds_nothing_says_when_it_looked(q: Queue) -> None:
    q.enqueue()
    hints = dict(q.claim(1)[0].row["next_hints"])
    old = aged(hints, "at", "headed", "reclaimed", "swept", seconds=60)
    new = empty(q, old)
    assert all(new[name] > hints[name] for name in ("at", "headed", "reclaimed", "swept"))
    assert new["took_ms"] > 0
    behind = q.enqueue(scheduled_at=LONG_AGO)
    assert empty(q, new | {"took_ms": 3000}) | {"reclaimed": 0} == new | {"took_ms": 3000, "reclaimed": 0}
    assert [row.id for row in q.claim(10, hints=new)] == [behind]


def test_a_claim_that_came_for_leases_alone_keeps_the_rest_of_what_is_known(q: Queue) -> None:
    hints = aged(hints_after(q), "reclaimed", "swept")
    new = empty(q, hints, max_tasks=0)
    assert new["reclaimed"] > hints["reclaimed"]
    same = ("at", "headed", "took_ms", "scope", "queue", "lanes", "bundles")
    assert [new[name] for name in same] == [hints[name] for name in same]


def test_a_clock_that_was_set_back_makes_no_worker_blind(q: Queue) -> None:
    hints = aged(hints_after(q), "at", "headed", "reclaimed", "swept", seconds=-3600)
    lost = q.claimed("lost", worker="dead")
    q.expire(lost.id)
    behind = q.enqueue(scheduled_at=LONG_AGO)
    assert q.claim(1, hints=hints)[0].id == behind
    assert q.task(lost.id)["status"] == "RETRYING"


def test_a_search_of_the_heads_forgets_no_exhausted_lane_where_it_takes_long(q: Queue) -> None:
    """Known from just before the search on: till then others may have taken many from it."""
    q.enqueue("t", scheduled_at=LONG_AGO)
    q.enqueue_many("u", [{}] * 300)
    with q.admin.transaction(force_rollback=True):
        definition = str(q.value("select pg_get_functiondef('internal.lanes_of'::regproc)"))
        slow = definition.replace("STABLE", "VOLATILE").replace("begin\n", "begin\n    perform pg_sleep(0.06);\n", 1)
        q.rows(slow.replace("%", "%%"))
        hints = dict(q.claim(2)[-1].row["next_hints"])
        hints = dict(q.claim(2, hints=aged(hints, "at", "headed", seconds=60))[-1].row["next_hints"])
        lanes = q.rows(
            "select l.task_type, clock_timestamp() - l.run_after as age from unnest((%s)::internal.lane[]) l",
            hints["lanes"],
        )
    ages = {lane["task_type"]: lane["age"].total_seconds() for lane in lanes}
    assert ages.keys() == {"t", "u"}
    assert ages["t"] < 60


def test_more_leases_that_ran_out_than_a_claim_ends_are_ended_by_the_next_ones(q: Queue) -> None:
    """Also where only those of the last seconds are looked for: they were left until the next search for all."""
    hints = hints_after(q) | {"swept_ms": 60_000}
    q.enqueue_many("lost", [{}] * 1200)
    q.rows("update queues.task_runs set priority = 5 where task_type = 'lost'")
    rows = [row for _ in range(3) for row in q.claim(400, worker="dead")]
    q.rows(
        "update queues.task_runs set leased_until = now() - interval '1 s' where id = any (%s)",
        [row.id for row in rows],
    )
    hints = aged(hints, "reclaimed")
    for _ in range(3):
        hints = dict(q.claim(1, hints=hints)[-1].row["next_hints"])
    assert q.count("leased_until < now()") == 0


def test_where_looks_take_long_a_claim_that_found_a_few_doesnt_let_them_wait_for_one(q: Queue) -> None:
    hints = aged(hints_after(q) | {"took_ms": 1000}, "at", "headed", seconds=6)
    behind = q.enqueue(scheduled_at=LONG_AGO)
    rows = q.claim(400, hints=hints)
    assert len(rows) == 299
    assert [row.id for row in q.claim(400, hints=rows[-1].row["next_hints"])] == [behind]
