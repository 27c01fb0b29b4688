"""Who may have which event when: order, fences, late commits. As SQL, without a dispatcher."""

from __future__ import annotations

import json
import threading
from typing import Any

import psycopg
import pytest

from tests.outbox.office import Office
from tests.worker.harness import wait_until

CLAIM = "select event_number, claim_no from queues.claim_deliveries(%s, %s, %s, %s)"


@pytest.fixture(autouse=True)
def sink(office: Office) -> None:
    office.sink("shop", "https://hooks.example.com", allow_private=False, backoff_base="1 hour", backoff_cap="1 hour")


def claim(office: Office, most: int = 100, run_length: int = 20, sink: str = "shop") -> list[tuple[int, int]]:
    return [(int(number), int(fence)) for number, fence in office.sql(CLAIM, sink, "10 s", most, run_length)]


def tell(
    office: Office, claimed: list[tuple[int, int]], result: str = "delivered", sink: str = "shop", **more: Any
) -> list[str]:
    outcomes = [{"event_number": number, "claim_no": fence, "result": result, **more} for number, fence in claimed]
    rows = office.sql("select answer from queues.finish_deliveries(%s, %s)", sink, json.dumps(outcomes))
    return [answer for (answer,) in rows]


def numbers(claimed: list[tuple[int, int]]) -> list[int]:
    return [number for number, _fence in claimed]


def let_leases_run_out(office: Office) -> None:
    office.sql("update queues.outbox_delivery set leased_until = now(), next_at = now() where leased_until is not null")


def test_a_run_is_the_lowest_of_its_subject_and_nobody_else_gets_what_is_behind_it(office: Office) -> None:
    for n in range(6):
        office.publish(subject=f"s{n % 2}")
    assert numbers(claim(office, run_length=2)) == [1, 3, 2, 4]
    assert claim(office) == []
    assert numbers(claim(office)) == []


def test_a_failure_holds_up_its_own_subject_and_nothing_else(office: Office) -> None:
    for subject in ("a", "b", None, "a", "b", None):
        office.publish(subject=subject)
    first = dict(claim(office, run_length=1))
    assert sorted(first) == [1, 2, 3, 6]
    assert tell(office, [(1, first[1])], "failed", status=500, error="x") == ["done"]
    assert tell(office, [(n, first[n]) for n in (2, 3, 6)]) == ["done"] * 3
    assert numbers(claim(office)) == [5]


def test_what_is_given_up_lets_its_subject_move_on(office: Office) -> None:
    office.publish(subject="a")
    office.publish(subject="a")
    ((number, fence),) = claim(office, run_length=1)
    assert tell(office, [(number, fence)], "failed", status=400, error="x") == ["parked"]
    assert numbers(claim(office)) == [2]


def test_unordered_events_of_a_subject_go_side_by_side(office: Office) -> None:
    office.publish(subject="a", ordered=False)
    office.publish(subject="a", ordered=False)
    assert len(claim(office, most=1)) == len(claim(office, most=1)) == 1


def test_neither_kind_starves_the_other_and_subjects_take_turns(office: Office) -> None:
    for n in range(10):
        office.publish(subject=f"s{n}")
        office.publish()
    assert len(claim(office, most=6)) == 6
    assert (
        office.one("select count(*) from queues.outbox_delivery where leased_until is not null and subject is null")
        == 3
    )
    turn = (
        "select subject from queues.claim_deliveries('shop', '10 s', 4, 1, after => 's6') where in_order_of is not null"
    )
    assert office.sql(turn) == [("s7",), ("s8",)]
    turn = turn.replace("s6", "s8")
    assert office.sql(turn) == [("s9",), ("s3",)]


def test_a_stale_dispatcher_is_refused(office: Office) -> None:
    office.publish(subject="a")
    stale = claim(office)
    let_leases_run_out(office)
    fresh = claim(office)
    assert fresh == [(1, 2)]
    assert tell(office, stale) == ["lost"]
    assert office.one("select state from queues.outbox_delivery") == "waiting"
    assert tell(office, fresh) == ["done"]
    assert tell(office, fresh) == ["already"]
    assert tell(office, [(99, 1)]) == ["lost"]
    assert office.sql("select sinks_open, published_at is not null from queues.outbox_event") == [(0, True)]


def test_a_lease_that_ran_out_still_accepts_its_own_outcome(office: Office) -> None:
    office.publish()
    claimed = claim(office)
    let_leases_run_out(office)
    assert tell(office, claimed) == ["done"]
    assert claim(office) == []


def test_a_row_that_is_locked_ends_the_run_before_it(office: Office) -> None:
    for _ in range(4):
        office.publish(subject="a")
    holder = office.database.connect("admin")
    with holder.transaction():
        holder.execute("select from queues.outbox_delivery where event_id = 3 for update")
        assert numbers(claim(office)) == [1, 2]
    assert claim(office) == []


def test_a_claim_waits_for_no_lock(office: Office) -> None:
    for subject in ("a", "b", None):
        office.publish(subject=subject)
    holder = office.database.connect("admin")
    with holder.transaction():
        holder.execute("select from queues.outbox_delivery where event_id in (1, 3) for update")
        assert numbers(claim(office)) == [2]


def test_writers_of_one_subject_commit_in_the_order_of_their_ids(office: Office) -> None:
    late, soon = (psycopg.connect(office.database.app_dsn) for _ in range(2))
    with late, soon:
        late.execute("select queues.publish_event('a', 'order/1')")
        thread = threading.Thread(target=lambda: soon.execute("select queues.publish_event('b', 'order/1')"))
        thread.start()
        waiting = "select from pg_locks where locktype = 'advisory' and not granted"
        wait_until(lambda: office.sql(waiting), "the second writer to wait")
        soon_other = office.publish("c", "order/2")
        late.commit()
        thread.join()
        soon.commit()
    assert soon_other
    assert office.sql("select event_type::text from queues.outbox_event where subject = 'order/1' order by id") == [
        ("a",),
        ("b",),
    ]


def test_a_transaction_that_commits_after_later_ones_were_delivered_leaves_no_gap(office: Office) -> None:
    with psycopg.connect(office.database.app_dsn) as late:
        late.execute("select queues.publish_event('late', 'a')")
        office.publish("soon", "b")
        soon = claim(office)
        assert numbers(soon) == [2] and tell(office, soon) == ["done"]
        late.commit()
    assert numbers(claim(office)) == [1]


def test_an_event_is_published_when_the_last_sink_has_it(office: Office) -> None:
    office.sink("other", "https://hooks.example.org", allow_private=False)
    office.publish()
    tell(office, claim(office))
    assert office.one("select published_at from queues.outbox_event") is None
    tell(office, claim(office, sink="other"), sink="other")
    assert office.one("select published_at from queues.outbox_event") is not None


def test_bytes_bound_a_claim_but_one_event_always_fits(office: Office) -> None:
    for n in range(4):
        office.publish(subject=f"s{n // 2}", data="x" * 1000)
    bounded = "select event_number from queues.claim_deliveries('shop', '10 s', 100, 20, %s)"
    assert office.sql(bounded, 10) == [(1,)]
    assert office.sql(bounded, 2500) == [(3,), (4,)]
