"""What is counted, and under which name."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reproq.executor.members import Child
from reproq.models.execution import End, Execution
from reproq.runner.deaths import cause_of
from reproq.runner.meter import Meter


def execution(number: int, task_type: str = "a.type", queue: str = "default") -> Execution:
    made = Execution(number, 1, task_type, queue, "{}", 1, 3, None, None)
    made.claimed_at, made.handed_at, made.waited_s = 100.0, 100.5, 2.0
    return made


def counted(outcome: dict[str, Any], answer: str) -> dict[str, int]:
    meter = Meter(lambda name: name)
    meter.ended([(execution(1), outcome)], {(1, 1): answer})
    return {kind: count for ends in meter.types.values() for kind, count in ends.outcomes.items() if count}


@pytest.mark.parametrize(
    ("outcome", "answer", "kinds"),
    [
        ({"success": True}, "done", {"succeeded": 1}),
        ({"success": True}, "already", {"succeeded": 1}),
        ({"success": True}, "cancelled", {"cancelled": 1}),
        ({"success": False, "kind": "raised"}, "done", {"raised": 1}),
        ({"success": False, "kind": "raised"}, "cancelled", {"cancelled": 1}),
        ({"success": False, "snooze_s": 5}, "done", {"snoozed": 1}),
        ({"success": True}, "lost", {}),
    ],
)
def test_an_execution_counts_as_what_the_database_made_of_it(
    outcome: dict[str, Any], answer: str, kinds: dict[str, int]
) -> None:
    assert counted(outcome, answer) == kinds


def test_an_outcome_that_the_database_did_not_answer_for_is_not_counted() -> None:
    meter = Meter(lambda name: name)
    meter.ended([(execution(1), {"success": True})], {})
    assert meter.types == {}


def test_the_wait_goes_on_until_the_hand_out() -> None:
    meter = Meter(lambda name: name)
    meter.ended([(execution(1), {"success": True, "ran_s": 0.25})], None)
    assert meter.waits["default"].sum == pytest.approx(2.5)
    assert meter.types["a.type"].run.sum == pytest.approx(0.25)


def test_types_and_queues_beyond_a_hundred_share_a_label() -> None:
    meter = Meter(lambda name: name)
    meter.ended([(execution(i, f"type{i}", f"queue{i}"), {"success": True, "ran_s": 1}) for i in range(300)], None)
    assert len(meter.types) == len(meter.waits) == 101
    assert meter.types["other"].outcomes["succeeded"] == sum(meter.waits["other"].counts) == 200


def child(*, busy: End | bool = False, **more: Any) -> Child:
    lines: Sequence[Execution] = ()
    if busy:
        lines = [execution(1)]
        lines[0].end = busy if isinstance(busy, End) else None
    fields = {"garbled": False, "boot_failed": False, "retiring": False, "execution": next(iter(lines), None)} | more
    return cast(Child, SimpleNamespace(**fields))


@pytest.mark.parametrize(
    ("ended", "exit_", "oom", "closing", "cause"),
    [
        (child(busy=End.TIMED_OUT), {"signal": 9}, False, False, "timed_out"),
        (child(busy=End.LOST), {"signal": 15}, False, False, "lost"),
        (child(busy=End.DRAINED), {"signal": 15}, False, True, "drained"),
        (child(busy=True), {"signal": 9, "by": "deadline"}, False, False, "deadline"),
        (child(busy=True), {"signal": 9}, True, False, "out_of_memory"),
        (child(busy=True), {"signal": 11}, True, False, "killed"),
        (child(busy=True), {"exit_code": 3}, False, False, "exited"),
        (child(busy=True, retiring=True), {"exit_code": 3}, False, False, "exited"),
        (child(garbled=True, retiring=True), {"signal": 9}, False, False, "bad_envelope"),
        (child(boot_failed=True), {"exit_code": 1}, False, False, "boot_failed"),
        (child(retiring=True), {"exit_code": 0}, False, False, "recycled"),
        (child(retiring=True), {"exit_code": 0}, False, True, "stopped"),
        (child(), {"signal": 9}, False, False, "killed"),
    ],
)
def test_the_end_of_a_child_has_one_cause(
    ended: Child, exit_: dict[str, Any], oom: bool, closing: bool, cause: str
) -> None:
    assert cause_of(ended, exit_, oom, closing) == cause
