"""A task may wait for others; however those end, it isn't left waiting."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psycopg
import pytest

from .conftest import Flow


def test_a_task_runs_after_all_that_it_waits_for(flow: Flow) -> None:
    first, second = flow.enqueue("a"), flow.enqueue("a")
    child = flow.enqueue("b", after=[first, second])
    assert flow.waiting(child) == 2
    for held in flow.claim(10):
        assert flow.claim(10) == []
        flow.succeed(held)
    assert [row.id for row in flow.claim(10)] == [child]
    assert flow.rows("select * from queues.task_dependency") == []


def test_what_is_over_already_is_not_waited_for(flow: Flow) -> None:
    held = flow.claimed("a")
    flow.succeed(held)
    child = flow.enqueue("b", after=[held.id])
    assert [row.id for row in flow.claim(10)] == [child]


@pytest.mark.parametrize("end", ["fail", "cancel", "delete", "expire"])
@pytest.mark.parametrize("before", [True, False], ids=["ended before", "ends later"])
def test_a_parent_that_does_not_succeed_cancels_its_children_and_theirs(flow: Flow, end: str, before: bool) -> None:
    held = flow.claimed("a", max_attempts=1)
    family: list[int] = []
    if not before:
        family.append(flow.enqueue("b", after=[held.id]))
        family.append(flow.enqueue("c", after=[family[0]]))
    if end == "fail":
        flow.fail(held)
    elif end == "cancel":
        flow.cancel(held.id)
        assert not family or flow.task(family[0])["status"] == "PENDING"  # it is still stopping
        flow.succeed(held)
    elif end == "delete":
        flow.soft_delete(held.id)
        flow.succeed(held)
    else:
        flow.start(held)
        flow.expire(held.id)
        flow.reclaim()
        flow.rows("select internal.tell_children()")
    if before:
        family.append(flow.enqueue("b", after=[held.id]))
        family.append(flow.enqueue("c", after=[family[0]]))
    for task in family:
        row = flow.task(task)
        assert (row["status"], row["failure_kind"], row["waiting_for"]) == ("CANCELLED", "parent_failed", 0)
    assert f"task {held.id}, for which it waited, ended" in flow.task(family[0])["last_error"]


def test_a_task_may_run_however_its_parents_end(flow: Flow) -> None:
    held = flow.claimed("a", max_attempts=1)
    child = flow.enqueue("b", after=[held.id], after_policy="over")
    flow.fail(held)
    assert [row.id for row in flow.claim(10)] == [child]


def test_a_parent_that_is_retried_is_waited_for(flow: Flow) -> None:
    held = flow.claimed("a")
    child = flow.enqueue("b", after=[held.id])
    flow.fail(held, retry_in_s=0)
    assert flow.waiting(child) == 1


def test_a_task_waits_for_its_parents_and_for_its_key(flow: Flow) -> None:
    blocker = flow.enqueue("t", limit_key="k")
    parent = flow.enqueue("a")
    child = flow.enqueue("b", after=[parent], limit_key="k")
    assert flow.waiting(child) == 2
    by_id = {row.id: row for row in flow.claim(10)}
    flow.succeed(by_id[parent])
    assert flow.waiting(child) == 1
    flow.succeed(by_id[blocker])
    assert [row.id for row in flow.claim(10)] == [child]


def test_a_child_that_is_replayed_waits_for_the_parents_that_are_not_over(flow: Flow) -> None:
    first, second = flow.claimed("a"), flow.claimed("a")
    child = flow.enqueue("b", after=[first.id, second.id])
    flow.cancel(child)
    flow.succeed(first)
    assert flow.replay(child) == "replayed"
    assert (flow.waiting(child), flow.claim(10)) == (1, [])
    flow.succeed(second)
    assert [row.id for row in flow.claim(10)] == [child]


@pytest.mark.parametrize("told", [False, True])
def test_a_child_that_is_replayed_early_still_waits_for_a_slot_of_its_key(flow: Flow, told: bool) -> None:
    blocker, parent = flow.enqueue("t", limit_key="k"), flow.enqueue("a")
    child = flow.enqueue("b", after=[parent], limit_key="k")
    by_id = {row.id: row for row in flow.claim(10)}
    flow.cancel(child)
    if told:  # as one that was replayed when nobody counted its parents any more
        flow.replay(child)
        flow.set(child, "waiting_for = 1")
    else:
        assert flow.replay(child) == "replayed"
    flow.succeed(by_id[parent])
    assert flow.claim(10) == []
    flow.succeed(by_id[blocker])
    assert [row.id for row in flow.claim(10)] == [child]


def test_children_of_one_call_wait_all(flow: Flow) -> None:
    parent = flow.enqueue("a")
    children = flow.enqueue_many("b", [{"n": n} for n in range(5)], after=[parent])
    (held,) = flow.claim(10)
    flow.succeed(held)
    assert [row.id for row in flow.claim(10)] == children


@pytest.mark.parametrize("after", [[99], [None], [-1]])
def test_an_unknown_parent_is_an_error(flow: Flow, after: list[int | None]) -> None:
    with pytest.raises(psycopg.Error) as refused:
        flow.enqueue("b", after=after)
    assert refused.value.sqlstate == "RQ003"
    assert flow.count() == 0


def test_an_app_waits_for_its_own_tasks_only(flow: Flow) -> None:
    others = flow.enqueue("a")
    with pytest.raises(psycopg.Error, match="of yours to wait for"):
        flow.rows("select queues.enqueue('b', after => array[%s::bigint])", others, by=flow.database.connect("app"))


def test_an_unknown_policy_is_refused(flow: Flow) -> None:
    parent = flow.enqueue("a")
    with pytest.raises(psycopg.Error, match="after_policy 'maybe' is unknown"):
        flow.enqueue("b", after=[parent], after_policy="maybe")
    for function in ("enqueue('b'", "enqueue_many('b', array['{}'::jsonb]"):
        with pytest.raises(psycopg.Error, match="after_policy 'maybe' is unknown"):
            flow.database.execute(f"select queues.{function}, after_policy => 'maybe')")


def test_retention_keeps_a_parent_that_somebody_waits_for(flow: Flow) -> None:
    parent = flow.enqueue("a")
    flow.enqueue("b", after=[parent])
    flow.rows("alter table queues.task_runs disable trigger task_runs_note_end")
    flow.set(
        parent,
        "status = 'SUCCESSFUL', result_json = 'null', completed_at = now() - interval '1 year',"
        " created_at = now() - interval '1 year'",
    )
    flow.rows("alter table queues.task_runs enable trigger task_runs_note_end")
    flow.rows("select internal.clean_up('90 s')")
    assert flow.count() == 2


def test_a_parent_that_ends_while_its_child_is_enqueued_is_not_missed(flow: Flow) -> None:
    held = flow.claimed("a")
    other = flow.database.connect()
    with other.transaction():
        other.execute("select queues.finish('w', %s)", (psycopg.types.json.Jsonb([held.fence | {"success": True}]),))
        ids: list[int] = []
        thread = threading.Thread(target=lambda: ids.append(flow.enqueue("b", after=[held.id])))
        thread.start()
        deadline = time.monotonic() + 20
        watch = flow.database.connect()
        waits = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
        while watch.execute(waits, (flow.admin.info.backend_pid,)).fetchone() == (0,):
            assert time.monotonic() < deadline
            time.sleep(0.005)
    thread.join()
    assert [row.id for row in flow.claim(10)] == ids


def test_ten_thousand_children_of_one_and_ten_thousand_parents_of_one(flow: Flow) -> None:
    """By a factor against half of it: quadratic cost would be four times as much. In CPU time of the server, for
    other programs run on this machine, too."""
    (pid,) = flow.admin.execute("select pg_backend_pid()").fetchone() or (0,)
    schedule = Path(f"/proc/{pid}/schedstat")

    def took(count: int) -> int:
        root = flow.enqueue("root")
        children = flow.enqueue_many("child", [{"n": n} for n in range(count)], after=[root])
        last = flow.enqueue("last", after=children)
        began = int(schedule.read_text().split()[0])
        finished = 0
        while finished < count + 1:
            found = flow.claim(500)
            outcomes = [row.fence | {"success": True} for row in found]
            flow.rows("select queues.finish('w', %s)", psycopg.types.json.Jsonb(outcomes))
            finished += len(found)
        (end,) = flow.claim(10)
        assert end.id == last
        flow.succeed(end)
        return int(schedule.read_text().split()[0]) - began

    took(500)
    half, whole = took(5000), took(10000)
    assert whole < 3.3 * half, (half, whole)
