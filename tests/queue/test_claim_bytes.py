"""A claim takes no more payload than its worker has room for, however many tasks it asked for."""

from __future__ import annotations

import random
from typing import Any

import pytest

from .conftest import Queue

SIZE = 100_000


def payload(number: int, packed: bool) -> dict[str, Any]:
    dice = random.Random(number)
    return {"n": number, "pad": "x" * SIZE if packed else dice.randbytes(SIZE // 2).hex()}


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "as it is"])
@pytest.mark.parametrize("types", [1, 3])
def test_an_answer_ends_with_the_row_that_fills_the_room_and_the_next_goes_on_from_there(
    q: Queue, packed: bool, types: int
) -> None:
    ids = [q.enqueue(f"t{n % types}", payload(n, packed)) for n in range(10)]
    found: list[list[int]] = []
    hints = None
    while rows := q.claim(500, max_bytes=int(2.5 * SIZE), hints=hints):
        found.append([row.id for row in rows])
        hints = rows[-1].row["next_hints"]
        assert len(found) <= 10
    assert found == [ids[0:3], ids[3:6], ids[6:9], ids[9:]]


def test_a_row_that_is_larger_than_the_room_is_taken_alone(q: Queue) -> None:
    ids = [q.enqueue("t", payload(n, True)) for n in range(3)]
    assert [[row.id for row in q.claim(500, max_bytes=room)] for room in (1, 0, -5)] == [[one] for one in ids]


def test_small_payloads_aren_t_held_up(q: Queue) -> None:
    q.enqueue_many("t", [{"n": n} for n in range(500)])
    assert len(q.claim(500, max_bytes=1 << 20)) == 500


def test_several_queues_share_the_room(q: Queue) -> None:
    for queue in ("a", "b", "c"):
        for n in range(4):
            q.enqueue("t", payload(n, True), queue_name=queue)
    seen = []
    hints = None
    while rows := q.claim(500, max_bytes=int(1.5 * SIZE), hints=hints):
        assert len(rows) <= 2
        seen += [row.id for row in rows]
        hints = rows[-1].row["next_hints"]
    assert len(set(seen)) == len(seen) == 12
