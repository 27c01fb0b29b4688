"""How outcomes are put together for one statement."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reproq.models.execution import Execution
from reproq.runner.desk import Desk
from reproq.runner.finishes import Finishes

MIB = 1 << 20


class Sent(list[list[int]]):
    """What went to the database, and how it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.errands: list[Any] = []

    def send(self, errand: Any) -> None:
        self.errands.append(errand)

    def answer(self, batch: list[tuple[int, int]]) -> None:
        self.errands.pop(0).done(dict.fromkeys(batch, "done"))


def execution(number: int, weight: int) -> Execution:
    made = Execution(number, 1, "t", "default", "{}", 1, 3, None, None)
    made.weight = weight
    return made


def test_one_statement_holds_no_more_than_it_can_and_one_outcome_at_least() -> None:
    sent, ended = Sent(), []
    finishes = Finishes(cast(Desk, sent), "w", lambda one, _outcome, _answer: ended.append(one.id))
    for number, weight in enumerate([6, 6, 6, 40, 1, 1], 1):
        one = execution(number, weight * MIB)
        finishes.add(one, {"id": one.id, "claim_no": 1, "success": True, "payload": None})
    for batch in ([1, 2], [3], [4], [5, 6]):
        finishes.turn(0.0, hurry=True)
        assert len(sent.errands) == 1
        sent.answer([(number, 1) for number in batch])
        assert ended[-len(batch) :] == batch
    assert (finishes.pending, finishes.weight) == (0, 0)


def test_a_thousand_small_ones_go_out_five_hundred_at_a_time() -> None:
    sent = Sent()
    finishes = Finishes(cast(Desk, SimpleNamespace(send=sent.send)), "w", lambda *_: None)
    for number in range(1, 1001):
        finishes.add(execution(number, 100), {"id": number, "claim_no": 1, "success": True, "payload": None})
    finishes.turn(0.0, hurry=True)
    assert finishes.pending == 1000
    sent.answer([(number, 1) for number in range(1, 501)])
    assert finishes.pending == 500


def test_few_outcomes_are_gathered_longer_than_many_and_the_last_ones_not_at_all() -> None:
    sent = Sent()
    finishes = Finishes(cast(Desk, sent), "w", lambda *_: None)
    finishes.add(execution(1, 10), {"id": 1, "claim_no": 1, "success": True, "payload": None})
    now = time.monotonic()
    few = finishes.turn(now, hurry=False)
    for number in range(2, 21):
        finishes.add(execution(number, 10), {"id": number, "claim_no": 1, "success": True, "payload": None})
    many = finishes.turn(now, hurry=False)
    assert few is not None
    assert many is not None
    assert few - many == pytest.approx(0.02)
    assert sent.errands == []
    assert finishes.turn(now, hurry=True) is None
    assert len(sent.errands) == 1
