"""The checker has teeth: each invariant holds for an honest run, and fails for each forged one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.faults.evidence import Body, Drain, Enqueue, Evidence, Idler, Line, Row, Step, Watch
from tests.faults.invariants import INVARIANTS, violations
from tests.faults.ledger import TornLine, parse

MS = 1_000_000
LEASE = 5000 * MS


def lines(task: int, claim: int, at: int, *kinds: str, pid: int = 7, attempt: int | None = None) -> list[Line]:
    return [Line(kind, task, claim, attempt or claim, (at + i) * MS, pid) for i, kind in enumerate(kinds)]


def step(task: int, at: int, old: str, new: str, claim: int, leased: str, attempts: str, end: int = LEASE) -> Step:
    """`leased` and `attempts` as "before after"."""
    was, is_ = (word == "yes" for word in leased.split())
    before, after = map(int, attempts.split())
    old_claim = claim - 1 if is_ and not was else claim
    leases = was, is_
    ends = end if was else None
    return Step(task, at * MS, old, new, old_claim, claim, *leases, before, after, "w0/9/x", "w0", ends)


def honest() -> Evidence:
    """Task 1 succeeds at once, task 2 fails once and runs again, task 3 is drained in the middle and runs elsewhere."""
    return Evidence(
        lines=[
            *lines(1, 1, 10, "start", "effect", "end"),
            *lines(2, 1, 10, "start"),
            *lines(2, 2, 40, "start", "effect", "end", pid=8),
            *lines(3, 1, 10, "start", "beat"),
            *lines(3, 2, 60, "start", "effect", "end", pid=8, attempt=1),
        ],
        rows={
            1: Row(1, "a", "SUCCESSFUL", False, 1, 3, 1, {"claim": 1}),
            2: Row(2, "b", "SUCCESSFUL", False, 2, 3, 2, {"claim": 2}),
            3: Row(3, "c", "SUCCESSFUL", False, 1, 3, 2, {"claim": 2}),
        },
        steps=[
            *(step(task, 5, "PENDING", "RUNNING", 1, "no yes", "0 1") for task in (1, 2, 3)),
            step(1, 20, "RUNNING", "SUCCESSFUL", 1, "yes no", "1 1"),
            step(2, 20, "RUNNING", "RETRYING", 1, "yes no", "1 1"),
            step(2, 35, "RETRYING", "RUNNING", 2, "no yes", "1 2"),
            step(3, 50, "RUNNING", "PENDING", 1, "yes no", "1 0"),
            replace(step(3, 55, "PENDING", "RUNNING", 2, "no yes", "0 1"), worker="w1/8/y", writer="w1"),
            step(2, 50, "RUNNING", "SUCCESSFUL", 2, "yes no", "2 2"),
            replace(step(3, 70, "RUNNING", "SUCCESSFUL", 2, "yes no", "1 1"), worker="w1/8/y", writer="w1"),
        ],
        enqueues=[
            Enqueue("a", "committed", 1),
            Enqueue("b", "committed", 2),
            Enqueue("c", "unknown"),
            Enqueue("d", "rolled_back"),
            Enqueue("e", "unknown"),
        ],
        drains=[Drain("w0/9/", 45 * MS, 60 * MS, 0)],
        idlers=[Idler("reproq finishes", 0.3)],
        watch=Watch(48, 10.0),
        bodies=[(Body(30, 50_000), Body(31, 52_000))],
    )


Forgery = Callable[[Evidence], object]


def forged_row(task: int, **changes: object) -> Forgery:
    return lambda e: e.rows.update({task: replace(e.rows[task], **changes)})  # type: ignore[arg-type]


def forged_lines(*more: Line) -> Forgery:
    return lambda e: e.lines.extend(more)


def without_line(task: int, claim: int, kind: str) -> Forgery:
    def forge(e: Evidence) -> None:
        e.lines = [line for line in e.lines if (line.task, line.claim, line.kind) != (task, claim, kind)]

    return forge


def forged_step(index: int, **changes: object) -> Forgery:
    return lambda e: e.steps.__setitem__(index, replace(e.steps[index], **changes))  # type: ignore[arg-type]


def more_steps(*more: Step) -> Forgery:
    return lambda e: e.steps.extend(more)


FORGERIES: dict[str, tuple[str, Forgery]] = {
    "an acknowledged task is missing": ("I1", lambda e: e.rows.pop(1)),
    "an acknowledged task exists twice": ("I1", lambda e: e.rows.update({9: replace(e.rows[1], id=9)})),
    "a task exists under another id than the acknowledged one": (
        "I1",
        lambda e: e.enqueues.__setitem__(0, Enqueue("a", "committed", 77)),
    ),
    "an unanswered enqueue exists twice": ("I1", lambda e: e.rows.update({9: replace(e.rows[3], id=9)})),
    "a rolled-back task exists": ("I1", lambda e: e.enqueues.__setitem__(1, Enqueue("b", "rolled_back"))),
    "a task that ran has no row": ("I1", forged_lines(*lines(99, 1, 5, "start"))),
    "a task was enqueued by nobody": ("I1", lambda e: e.enqueues.pop(0)),
    "a task never ended": ("I1", forged_row(2, status="RETRYING")),
    "a task that ended is still leased": ("I1", forged_row(2, leased=True)),
    "a task has two final states": (
        "I2",
        more_steps(
            step(1, 30, "SUCCESSFUL", "RETRYING", 1, "no no", "1 1"),
            step(1, 31, "RETRYING", "FAILED", 1, "no no", "1 1"),
        ),
    ),
    "a final state was changed": ("I2", more_steps(step(1, 30, "SUCCESSFUL", "FAILED", 1, "no no", "1 1"))),
    "a result was written over": ("I2", more_steps(step(1, 30, "SUCCESSFUL", "SUCCESSFUL", 1, "no no", "1 1"))),
    "a final state that the journal never saw": ("I2", lambda e: e.steps.pop()),
    "an execution has two outcomes": ("I2", more_steps(step(2, 30, "RUNNING", "RETRYING", 1, "yes no", "1 1"))),
    "an execution has no outcome": ("I2", lambda e: e.steps.pop(4)),
    "more attempts than allowed": ("I2", forged_row(2, max_attempts=1)),
    "the row says fewer attempts than were made": ("I2", forged_row(2, attempts=1)),
    "a success without an attempt": ("I2", forged_row(1, attempts=0)),
    "a failure that wasn't counted": ("I2", forged_step(4, attempts=0, worker="w7/1/")),
    "a release took two attempts back": ("I2", forged_step(6, attempts=-1)),
    "a claim that wasn't counted": ("I2", forged_step(5, attempts=1)),
    "attempts changed between two claims": ("I2", more_steps(step(2, 60, "RETRYING", "RETRYING", 2, "no no", "2 1"))),
    "an execution that began wasn't counted, and nobody drained": ("I2", lambda e: e.drains.clear()),
    "a task was claimed after its end": ("I2", more_steps(step(1, 30, "SUCCESSFUL", "SUCCESSFUL", 2, "no yes", "1 2"))),
    "an execution that nobody claimed": ("I2", forged_lines(*lines(1, 9, 90, "start", "effect", "end"))),
    "a row with a claim that was never made": ("I2", forged_row(1, claim=9)),
    "a handler was told a wrong attempt": (
        "I2",
        lambda e: e.lines.append(replace(e.lines.pop(2), attempt=42)),
    ),
    "an execution that began and expired wasn't counted": ("I2", forged_step(4, attempts=0, at=LEASE + 1)),
    "a claim number fell": ("I2", more_steps(step(2, 60, "RETRYING", "RUNNING", 1, "no yes", "1 2"))),
    "an execution started twice": ("I3", forged_lines(*lines(1, 1, 15, "start"))),
    "an execution had its effect twice": ("I3", forged_lines(*lines(1, 1, 15, "effect"))),
    "an effect came out of nothing": ("I3", without_line(1, 1, "start")),
    "an effect came after the end": ("I3", lambda e: e.lines.append(replace(e.lines.pop(1), ns=19 * MS))),
    "two processes ran one execution": ("I3", forged_lines(*lines(1, 1, 15, "beat", pid=8))),
    "two executions overlapped": ("I4", forged_lines(*lines(2, 1, 41, "beat"))),
    "an execution began before the one before it": ("I4", forged_lines(*lines(2, 3, 30, "start"))),
    "a success without its effect": ("I5", without_line(1, 1, "effect")),
    "a success with the effect of another execution only": ("I5", without_line(2, 2, "effect")),
    "a process stayed": ("I6", lambda e: e.orphans.append("pid 4711 (sleep 60)")),
    "a process died and wasn't buried": ("I6", lambda e: e.zombies.append("pid 4711 (Z)")),
    "descriptors that nobody could count": ("I6", lambda e: e.bodies.append((Body(0, 1), Body(0, 1)))),
    "descriptors leaked": ("I6", lambda e: e.bodies.append((Body(30, 1), Body(60, 1)))),
    "memory leaked": ("I6", lambda e: e.bodies.append((Body(30, 50_000), Body(30, 59_000)))),
    "nobody looked at the sessions": ("I7", lambda e: setattr(e, "watch", Watch(3, 10.0))),
    "a session was idle in a transaction": ("I7", lambda e: e.idlers.append(Idler("reproq claims", 1.4))),
    "a drain ended badly": ("I8", lambda e: e.drains.append(Drain("w5/3/", 0, 1, 1))),
    "a drain burned an attempt": ("I8", forged_step(6, attempts=1)),
    "a drain left a task to its lease": ("I8", forged_step(6, at=LEASE + 1)),
    "a drained worker still holds a task": (
        "I8",
        more_steps(step(4, 44, "PENDING", "RUNNING", 1, "no yes", "0 1")),
    ),
    "a drained worker gave a task back when it was gone": (
        "I8",
        more_steps(
            step(4, 44, "PENDING", "RUNNING", 1, "no yes", "0 1"),
            step(4, 80, "RUNNING", "PENDING", 1, "yes no", "1 0"),
        ),
    ),
    "a worker that was asked to end went on claiming": (
        "I8",
        lambda e: e.drains.__setitem__(0, Drain("w1/8/", -1000 * MS, 99 * MS, 0)),
    ),
    "the result of a stale execution was accepted": ("I9", forged_row(2, result={"claim": 1})),
    "a worker ended what another one held": ("I9", forged_step(3, writer="w1")),
    "a worker extended what another one held": (
        "I9",
        more_steps(replace(step(2, 38, "RUNNING", "RUNNING", 2, "yes yes", "2 2"), writer="w1")),
    ),
    "an execution wrote after it was let go": ("I9", forged_lines(*lines(1, 1, 40, "beat"))),
    "an execution wrote after its lease had run out": ("I9", forged_step(3, lease_end=5 * MS)),
}


def test_an_honest_run_violates_nothing() -> None:
    assert violations(honest()) == []


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_run_is_found_out(what: str) -> None:
    name, forge = FORGERIES[what]
    evidence = honest()
    forge(evidence)
    assert any(text.startswith(f"{name}: ") for text in violations(evidence)), violations(evidence)


def test_every_invariant_has_been_seen_failing() -> None:
    assert {name for name, _ in FORGERIES.values()} == set(INVARIANTS)


@pytest.mark.parametrize("text", ["start 1 1 1 5", "begin 1 1 1 5 7", "start 1 1 1 5 7 8", "start 1 x 1 5 7", ""])
def test_a_line_that_nobody_can_have_written_whole_is_refused(text: str) -> None:
    with pytest.raises(TornLine):
        parse(text)


def test_a_line_is_read_as_it_was_written() -> None:
    assert parse("effect 12 3 2 99 4711") == Line("effect", 12, 3, 2, 99, 4711)
