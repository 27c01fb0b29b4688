"""Who may claim what: prefixes, queues, pools, what is never claimed, and many claimers at once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from .conftest import Queue, at_once, refused


def types(q: Queue, *prefixes: str | None) -> list[str]:
    return sorted(row.row["task_type"] for row in q.claim(100, prefixes=list(prefixes)))


def test_a_prefix_is_plain_characters(q: Queue) -> None:
    for name in ("a_b.x", "axb.x", "a.x", "ab", "a-", "a:", "A_b", "a_b"):
        q.enqueue(name)
    assert types(q, "a_b.") == ["a_b.x"]
    assert types(q, "a%", "%", "_", "a__") == []
    assert types(q, "a_") == ["a_b"]
    assert types(q, "a.", "a:") == ["a.x", "a:"]


def test_a_prefix_may_be_the_whole_type_and_prefixes_may_overlap(q: Queue) -> None:
    for name in ("mail", "mail.send", "mailer", "mai"):
        q.enqueue(name)
    rows = q.claim(100, prefixes=["mail", "mail.", "mail.send", "mail", None])
    assert sorted(row.row["task_type"] for row in rows) == ["mail", "mail.send", "mailer"]


@pytest.mark.parametrize(
    ("prefixes", "found"), [(None, 3), ([""], 3), ([], 0), ([None], 0), (["~"], 0), (["é"], 0), (["z"], 1)]
)
def test_no_prefix_is_every_type_and_an_empty_list_none(q: Queue, prefixes: list[str] | None, found: int) -> None:
    for name in ("0a", "A", "zzz~"[:3]):
        q.enqueue(name)
    assert len(q.claim(10, prefixes=prefixes)) == found


@pytest.mark.parametrize(("queues", "found"), [(None, 3), (["a"], 1), (["a", "b", "a", None], 2), ([], 0), (["d"], 0)])
def test_no_queue_is_every_queue_and_an_empty_list_none(q: Queue, queues: list[str] | None, found: int) -> None:
    for name in ("a", "b", "c"):
        q.enqueue(queue_name=name)
    assert len(q.claim(10, queues=queues)) == found


def test_never_more_than_asked(q: Queue) -> None:
    q.enqueue_many("a", [{}] * 60)
    q.enqueue_many("b", [{}] * 60)
    hints = None
    for wanted in (0, 1, 2, 17, 25, 26, 49):
        rows = q.claim(wanted, hints=hints)
        assert len(rows) == wanted
        hints = rows[-1].row["next_hints"] if rows else None


def test_what_is_not_claimable_stays(q: Queue) -> None:
    q.enqueue(scheduled_at="2100-01-01")
    q.soft_delete(q.enqueue())
    q.set(q.enqueue(), "waiting_for = 1")
    q.cancel(q.enqueue())
    q.claimed("running", queue_name="other")
    assert q.claim(100) == []


def test_a_retry_is_claimed_when_its_time_has_come_and_not_before(q: Queue) -> None:
    row = q.claimed()
    q.fail(row, retry_in_s=60)
    assert q.claim() == []
    q.set(row.id, "run_after = now()")
    (again,) = q.claim()
    assert (again.id, again.claim_no, again.row["attempt_count"]) == (row.id, row.claim_no + 1, 2)


def test_a_claimed_row_is_leased_and_counted(q: Queue) -> None:
    row = q.claimed(worker="me")
    task = q.task(row.id)
    assert (task["status"], task["worker_id"], task["claim_no"], task["attempt_count"]) == ("RUNNING", "me", 1, 1)
    assert (task["started_at"], task["leased_until"] > task["claimed_at"]) == (None, True)
    assert task["updated_at"] > task["created_at"]


@pytest.mark.parametrize(("lease", "of_type", "seconds"), [("90 s", None, 90), ("5 s", 60, 60), ("90 s", 60, 90)])
def test_the_lease_is_what_was_asked_or_the_types_where_that_is_longer(
    q: Queue, lease: str, of_type: int | None, seconds: int
) -> None:
    q.declare("t", lease=of_type)
    q.enqueue_many("t", [{}] * 2)
    q.enqueue("u", queue_name="two_types")
    q.enqueue("t", queue_name="two_types")
    ids = [row.id for row in q.claim(10, lease=lease) if row.row["task_type"] == "t"]
    spans = q.rows(
        "select round(extract(epoch from leased_until - claimed_at)) as s from queues.task_runs where id = any(%s)", ids
    )
    assert [row["s"] for row in spans] == [seconds] * 3


def test_queues_take_turns_within_a_claim(q: Queue) -> None:
    for name in ("a", "b", "c"):
        q.enqueue_many("t", [{}] * 200, queue_name=name)
    turns = Counter(row.row["queue_name"] for row in q.claim(90))
    assert turns == {"a": 30, "b": 30, "c": 30}


def test_what_a_queue_leaves_over_is_filled_from_the_others(q: Queue) -> None:
    q.enqueue_many("t", [{}] * 5, queue_name="a")
    q.enqueue_many("t", [{}] * 200, queue_name="b")
    assert Counter(row.row["queue_name"] for row in q.claim(100)) == {"a": 5, "b": 95}


@pytest.mark.parametrize("carried", [True, False])
def test_no_queue_starves_behind_a_full_one(q: Queue, carried: bool) -> None:
    """Also for callers that carry no hints, such as those of dequeue_next_available_task."""
    for name in ("a", "b"):
        q.enqueue_many("t", [{}] * 40, queue_name=name)
    hints: dict[str, Any] | None = None
    seen: Counter[str] = Counter()
    for _ in range(40):
        (row,) = q.claim(1, hints=hints)
        hints = row.row["next_hints"] if carried else None
        seen[row.row["queue_name"]] += 1
    assert min(seen["a"], seen["b"]) >= (20 if carried else 5)


POOLS = [{"free": 2, "types": ["sys", "db"]}, {"free": 3, "prefixes": ["media.", "img"]}, {"free": 4}]


def test_a_pool_gets_what_it_has_free_and_no_more(q: Queue) -> None:
    for name in ("sys", "db", "media.a", "img", "sys2", "other"):
        q.enqueue_many(name, [{}] * 10)
    got = Counter(row.row["task_type"] for row in q.claim(100, pools=POOLS))
    assert got["sys"] + got["db"] == 2
    assert got["media.a"] + got["img"] == 3
    assert got["sys2"] + got["other"] == 4


def test_a_full_pool_is_in_nobodys_way(q: Queue) -> None:
    q.enqueue_many("sys", [{}] * 50, priority=9)
    q.enqueue_many("other", [{}] * 3)
    pools = [{"free": 0, "types": ["sys"]}, {"free": -1, "types": ["more"]}, {"free": 5}]
    rows = q.claim(10, pools=pools)
    assert [row.row["task_type"] for row in rows] == ["other"] * 3
    hints = rows[-1].row["next_hints"]
    assert q.claim(10, pools=pools, hints=hints) == []
    assert len(q.claim(10, pools=[{"free": 9, "types": ["sys"]}, *pools[1:]], hints=hints)) == 9


def test_a_prefix_of_a_pool_is_plain_characters_too(q: Queue) -> None:
    for name in ("a_b", "axb", "a"):
        q.enqueue(name)
    pools = [{"free": 9, "prefixes": ["a_", "%"]}]
    assert [row.row["task_type"] for row in q.claim(10, pools=pools)] == ["a_b"]


def test_a_pool_that_says_never_keeps_its_types_from_the_others(q: Queue) -> None:
    for name in ("a", "b"):
        q.enqueue(name)
    pools = [{"free": 0, "never": True, "types": ["a"]}, {"free": 9}]
    assert [row.row["task_type"] for row in q.claim(10, pools=pools)] == ["b"]


def test_a_type_of_no_pool_is_left_alone(q: Queue) -> None:
    q.enqueue("a")
    q.enqueue("b")
    assert [row.row["task_type"] for row in q.claim(10, pools=[{"free": 9, "types": ["a"]}])] == ["a"]
    assert q.claim(10, pools=[]) == []


GARBAGE: list[dict[str, Any]] = [
    {"worker_id": None}, {"worker_id": ""}, {"worker_id": "w" * 301}, {"lease": None}, {"lease": "0"},
    {"lease": "2 days"},
    {"max_tasks": None}, {"max_tasks": -1}, {"max_tasks": 10001}, {"pools": {}}, {"pools": [1]}, {"pools": [{}]},
    {"pools": [{"free": "many"}]}, {"pools": [{"free": 1.5}]}, {"pools": [{"free": 1, "types": "a"}]},
    {"pools": [{"free": 1, "prefixes": 1}]}, {"pools": [{"free": 99999999999}]}, {"hints": [1]},
    {"hints": {"at": "no time"}}, {"hints": {"at": "2100-01-01", "lanes": 1}}, {"hints": {"at": "2100-01-01",
    "took_ms": "x"}},
    {"hints": {"at": "2100-01-01", "lanes": [["x"]]}}, {"hints": {"lanes": "{}", "bundles": [["x"]]}},
    {"hints": {"at": "2100-01-01", "lanes": [[1, "default", "t",
    0, "never", 1]]}},
]  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE, ids=str)
def test_garbage_gets_one_clear_error(q: Queue, garbage: dict[str, Any]) -> None:
    q.enqueue()
    arguments: dict[str, Any] = {"worker": "w", "lease": "30 s", "max_tasks": 1} | garbage
    if "worker_id" in arguments:
        arguments["worker"] = arguments.pop("worker_id")
    code, message, hint = refused(lambda: q.claim(**arguments))
    assert (code, bool(message), bool(hint)) == ("RQ003", True, True)
    assert q.count("status = 'RUNNING'") == 0


@pytest.mark.parametrize(("types", "queues"), [(1, 1), (5, 1), (3, 3)])
def test_16_claimers_share_no_row_and_leave_none(q: Queue, types: int, queues: int) -> None:
    for number in range(types):
        q.enqueue_many(f"t{number}", [{}] * (480 // types // queues), queue_name=f"q{number % queues}")
    total = q.count()
    connections = [q.database.connect("worker") for _ in range(16)]

    def drain(number: int) -> list[int]:
        mine: list[int] = []
        hints = None
        while rows := q.call(
            "claim", connections[number], worker_id=f"w{number}", queues=None, prefixes=None, lease="30 s", max_tasks=7,
            **({"hints": hints} if hints else {}),
        ):  # fmt: skip
            mine += [row["id"] for row in rows]
            hints = rows[-1]["next_hints"]
        return mine

    taken = [task_id for mine in at_once(16, drain) for task_id in mine]
    assert len(taken) == len(set(taken))
    # A claim may come back empty while rivals hold what is left. Nothing of it may be lost.
    rest = [row.id for row in q.claim(1000)]
    assert len(taken) + len(rest) == total
    assert q.value("select max(claim_no) from queues.task_runs") == 1
