"""Every state meets every happening: the database does what TRANSITIONS says, and nothing else changes anything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reproq.models.states import FINAL, TRANSITIONS, Happening, State, Status

from .conftest import Claimed, Queue

ROOT = Path(__file__).parents[2]


def held(queue: Queue, max_attempts: int) -> Claimed:
    row = queue.claimed(max_attempts=max_attempts)
    queue.start(row)
    return row


def ended(queue: Queue, row: Claimed, end: str) -> Claimed:
    {"cancel": lambda: queue.cancel(row.id), "succeed": lambda: queue.succeed(row), "fail": lambda: queue.fail(row)}[
        end
    ]()
    return row


def retrying(queue: Queue, max_attempts: int) -> Claimed:
    row = held(queue, max(2, max_attempts))
    queue.fail(row, retry_in_s=0)
    return row


def waiting(queue: Queue, max_attempts: int) -> Claimed:
    return Claimed(queue.enqueue(max_attempts=max_attempts), 0, "w", {})


def cancelled(queue: Queue, max_attempts: int) -> Claimed:
    row = ended(queue, held(queue, max_attempts), "cancel")
    queue.succeed(row)
    return row


MAKE: dict[State, Callable[[Queue, int], Claimed]] = {
    State.PENDING: waiting,
    State.RETRYING: retrying,
    State.RUNNING: held,
    State.STOPPING: lambda queue, most: ended(queue, held(queue, most), "cancel"),
    State.SUCCESSFUL: lambda queue, most: ended(queue, held(queue, most), "succeed"),
    State.FAILED: lambda queue, _: ended(queue, held(queue, 1), "fail"),
    State.CANCELLED: cancelled,
}


def expire(queue: Queue, row: Claimed) -> None:
    """Only where a lease is held can one run out; elsewhere the reclaim must find nothing."""
    queue.rows("update queues.task_runs set leased_until = now() - interval '1 s' where leased_until is not null")
    queue.reclaim()


ACT: dict[Happening, Callable[[Queue, Claimed], object]] = {
    Happening.CLAIM: lambda queue, _: queue.claim(10, worker="another"),
    Happening.SUCCEED: lambda queue, row: queue.succeed(row),
    Happening.FAIL: lambda queue, row: queue.fail(row),
    Happening.FAIL_LAST: lambda queue, row: queue.fail(row),
    Happening.SNOOZE: lambda queue, row: queue.finish(row, False, snooze_s=1),
    Happening.GIVE_BACK: lambda queue, row: queue.give_back(row),
    Happening.GIVE_BACK_LAST: lambda queue, row: queue.give_back(row),
    Happening.EXPIRE: expire,
    Happening.EXPIRE_LAST: expire,
    Happening.CANCEL: lambda queue, row: queue.cancel(row.id),
    Happening.REPLAY: lambda queue, row: queue.replay(row.id),
}
LAST = {Happening.FAIL_LAST, Happening.GIVE_BACK_LAST, Happening.EXPIRE_LAST}


def state_of(queue: Queue, task_id: int) -> State:
    row = queue.task(task_id)
    if row["status"] == "CANCELLED" and row["leased_until"] is not None:
        return State.STOPPING
    return State(row["status"])


def test_the_table_knows_every_state_and_every_happening() -> None:
    assert {state for state, _ in TRANSITIONS} | set(TRANSITIONS.values()) == set(State) == set(MAKE)
    assert {happening for _, happening in TRANSITIONS} == set(Happening) == set(ACT)


def test_the_database_knows_the_same_statuses(q: Queue) -> None:
    labels = q.rows("select unnest(enum_range(null::queues.task_status))::text as label")
    assert [row["label"] for row in labels] == [status.value for status in Status]


@pytest.mark.parametrize("happening", Happening, ids=lambda happening: happening.name)
@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_what_happens_leads_where_the_table_says(q: Queue, state: State, happening: Happening) -> None:
    row = MAKE[state](q, 1 if happening in LAST else 3)
    assert state_of(q, row.id) is state
    before = q.task(row.id)
    ACT[happening](q, row)
    if (state, happening) in TRANSITIONS:
        assert state_of(q, row.id) is TRANSITIONS[state, happening]
    else:
        assert q.task(row.id) == before


@pytest.mark.parametrize("happening", [Happening.SNOOZE, Happening.GIVE_BACK], ids=lambda happening: happening.name)
def test_a_later_attempt_goes_back_to_retrying(q: Queue, happening: Happening) -> None:
    first = retrying(q, 3)
    (second,) = q.claim()
    assert second.id == first.id
    q.start(second)
    ACT[happening](q, second)
    assert state_of(q, first.id) is State.RETRYING


def test_only_a_replay_leaves_a_final_state() -> None:
    final = {state for state in State if state.value in {status.value for status in FINAL}}
    assert {happening for state, happening in TRANSITIONS if state in final} == {Happening.REPLAY}


def test_the_page_on_states_is_drawn_from_the_table() -> None:
    drawn = subprocess.run(
        [sys.executable, "docs/draw_states.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert (ROOT / "docs/states.md").read_text("utf-8") == drawn, "run: python docs/draw_states.py > docs/states.md"
