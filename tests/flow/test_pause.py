"""What is paused isn't claimed, from the next claim on; nothing else is held up."""

from __future__ import annotations

import psycopg
import pytest

from .conftest import Flow


def test_a_paused_queue_is_not_claimed_and_others_are(flow: Flow) -> None:
    flow.enqueue("a", queue_name="stopped")
    flow.enqueue("b")
    assert flow.pause_queue("stopped") == "paused"
    assert flow.types(flow.claim(10)) == ["b"]
    assert flow.pause_queue("stopped", False) == "resumed"
    assert flow.types(flow.claim(10)) == ["a"]


def test_a_paused_type_is_not_claimed_and_others_of_its_queue_are(flow: Flow) -> None:
    flow.enqueue("a", priority=9)
    flow.enqueue("b")
    flow.pause_type("a")
    assert flow.types(flow.claim(10)) == ["b"]
    flow.pause_type("a", False)
    assert flow.types(flow.claim(10)) == ["a"]


def test_a_claim_with_hints_from_before_the_pause_knows_of_it(flow: Flow) -> None:
    flow.enqueue_many("a", [{}] * 10)
    hints = flow.hints(flow.claim(2))
    flow.pause_type("a")
    assert flow.claim(2, hints=hints) == []
    flow.pause_type("a", False)
    assert len(flow.claim(2, hints=hints)) == 2


@pytest.mark.parametrize("admitted", [False, True])
@pytest.mark.parametrize("what", ["queue", "type"])
def test_what_is_paused_keeps_no_other_task_of_its_key_waiting(flow: Flow, what: str, admitted: bool) -> None:
    def pause(paused: bool) -> None:
        if what == "queue":
            flow.pause_queue("stopped", paused)
        else:
            flow.pause_type("a", paused)

    if not admitted:
        pause(True)
    first = flow.enqueue("a", queue_name="stopped", limit_key="k")
    other = flow.enqueue("b", limit_key="k")
    pause(True)
    flow.sweep()
    (held,) = flow.claim(10)
    assert held.id == other
    pause(False)
    flow.sweep()
    assert flow.claim(10) == []
    flow.succeed(held)
    assert [row.id for row in flow.claim(10)] == [first]


def test_what_runs_goes_on(flow: Flow) -> None:
    held = flow.claimed("a")
    flow.pause_queue("default")
    assert flow.heartbeat(held) == "kept"
    assert flow.succeed(held) == "done"


def test_what_is_paused_keeps_no_worker_that_runs_until_empty(flow: Flow) -> None:
    flow.enqueue("a")
    assert not flow.value("select queues.nothing_left(null, null)")
    flow.pause_type("a")
    assert flow.value("select queues.nothing_left(null, null)")


def test_a_child_that_reports_its_type_does_not_resume_it(flow: Flow) -> None:
    flow.pause_type("a")
    flow.declare("a", max_attempts=2)
    flow.enqueue("a")
    assert flow.claim(10) == []


@pytest.mark.parametrize("name", ["", "a b", None])
def test_a_name_that_can_not_be_is_refused(flow: Flow, name: str | None) -> None:
    for function in ("pause_queue", "pause_type"):
        with pytest.raises(psycopg.Error, match="bad "):
            flow.rows(f"select queues.{function}(%s)", name)


@pytest.mark.parametrize("function", ["pause_queue('x')", "pause_type('x')", "put_limit('key', 'x', 1)"])
@pytest.mark.parametrize("role", ["app", "worker"])
def test_neither_an_app_nor_a_worker_may_change_the_flow(flow: Flow, function: str, role: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        flow.rows(f"select queues.{function}", by=flow.database.connect(role))
