"""A leader that is stopped and comes back: nobody leads beside another, and each slot of a schedule comes once."""

from __future__ import annotations

import time
from datetime import timedelta
from itertools import pairwise

from tests.faults.scene import Scene
from tests.worker.harness import Worker, wait_until

LEASE_S, TAKEOVER_S = 3.0, 1.0
_WATCHED = """
    create table faults.reign (
        term bigint, worker text, since timestamptz, until timestamptz, before_until timestamptz);
    create function faults.note_reign() returns trigger language plpgsql security definer as $$ begin
        insert into faults.reign
        values (new.term, new.worker_id, clock_timestamp(), new.until, greatest(old.until, 'epoch'));
        return null;
    end $$;
    create trigger note_reign after update on queues.leader for each row execute function faults.note_reign();
"""
_TICKS = "select queues.put_schedule('tick', 'work', every => '1 second', catch_up => 'all')"
_SLOTS = """
    select s.slot, count(t.id) from internal.schedule_slot s left join queues.task_runs t on t.id = s.task_id
    where s.schedule_name = 'tick' group by s.slot order by s.slot
"""


def test_s26_a_leader_frozen_for_three_leases_again_and_again_never_leads_beside_another(scene: Scene) -> None:
    """It is stopped with its children, and wakes as one of the others."""
    rounds = scene.size(ci=2, full=20)
    scene.sql(_WATCHED)
    scene.sql(_TICKS)
    workers = [scene.worker("--lease", "3s", processes=1).ready() for _ in range(3)]
    for _ in range(rounds):
        frozen = _leader(scene, workers)
        everyone = [frozen.pid, *(process.pid for process in frozen.family())]
        (term,) = scene.sql("select term from queues.leader")[0]
        froze = time.monotonic()
        scene.freeze(everyone)
        wait_until(lambda term=term: scene.one("select term from queues.leader") > term, scene.log)  # type: ignore[misc]
        assert time.monotonic() - froze < LEASE_S + TAKEOVER_S + 0.5  # half a second for the machine
        time.sleep(max(0, froze + 3 * LEASE_S - time.monotonic()))
        scene.thaw(everyone)
    scene.sql("select queues.enable_schedule('tick', false)")
    scene.wait_all_over()
    _one_at_a_time(scene, rounds)
    slots = scene.sql(_SLOTS)
    assert all(later - slot == timedelta(seconds=1) for (slot, _), (later, _) in pairwise(slots)), "a slot is missing"
    assert {count for _, count in slots} == {1}
    assert len(slots) > rounds * LEASE_S * 2
    scene.check("I2 I3 I4 I5 I6 I7 I8 I9")  # the schedule enqueues, so there is no client's word for I1


def _leader(scene: Scene, workers: list[Worker]) -> Worker:
    def found() -> Worker | None:
        name = str(scene.one("select worker_id from queues.leader where until > clock_timestamp()") or "")
        return next((worker for worker in workers if f"/{worker.pid}/" in name), None)

    leader = wait_until(
        lambda: scene.sql("select 1 from queues.leader where until > clock_timestamp()") and found(), scene.log
    )
    assert isinstance(leader, Worker)
    return leader


def _one_at_a_time(scene: Scene, rounds: int) -> None:
    reigns = scene.sql("select term, worker, since, until, before_until from faults.reign order by since")
    assert reigns[-1][0] >= rounds
    for (term, worker, _, until, _), (next_term, next_worker, since, _, seen_until) in pairwise(reigns):
        assert seen_until == until
        if (next_term, next_worker) != (term, worker):
            assert next_term > term and since >= until, f"{next_worker} led from {since}, {worker} until {until}"
