"""What becomes of an event that a sink won't take, and of a sink that fails: retries, parking, pauses, retention."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.outbox.office import Office
from tests.outbox.test_order import claim, let_leases_run_out, numbers, tell


@pytest.fixture(autouse=True)
def sink(office: Office) -> None:
    office.sink("shop", "https://hooks.example.com", allow_private=False)


ANSWERS: dict[int | None, str] = {
    **dict.fromkeys((400, 401, 404, 422, 499), "parked"),
    **dict.fromkeys((301, 408, 410, 425, 429, 500, 503, None), "waiting"),
}


def due(office: Office) -> None:
    """Time passes for what waits for a retry, and for sinks that pause."""
    office.sql("update queues.outbox_delivery set next_at = now() where leased_until is null")
    office.sql("update queues.sinks set resume_at = 'epoch'")


def fail(office: Office, **more: Any) -> str:
    due(office)
    (answer,) = tell(office, claim(office, most=1), "failed", error="no", **more)
    return answer


def test_the_answer_decides(office: Office) -> None:
    for status, becomes in ANSWERS.items():
        office.publish()
        fail(office, status=status)
        assert (status, office.one("select state from queues.outbox_delivery")) == (status, becomes)
        assert office.one("select enabled from queues.sinks") == (status != 410)
        office.sql("delete from queues.outbox_event")
        office.sql("select queues.enable_sink('shop')")


def test_after_the_last_attempt_it_is_parked_and_a_replay_opens_it_again(office: Office) -> None:
    event_id = office.publish()
    assert [fail(office, status=500) for _ in range(20)] == ["done"] * 19 + ["parked"]
    due(office)
    assert claim(office) == []
    assert office.one("select published_at is not null from queues.outbox_event")
    parked = office.sql(
        "select sink, event_id::text, attempts, last_status, last_error from queues.parked_deliveries()"
    )
    assert parked == [("shop", event_id, 20, 500, "no")]
    assert office.one("select queues.replay_events('shop')") == 1
    assert office.one("select queues.replay_events('shop')") == 0
    assert office.sql("select sinks_open, published_at from queues.outbox_event") == [(1, None)]
    assert tell(office, claim(office)) == ["done"]


def test_what_fails_for_longer_than_it_may_is_parked(office: Office) -> None:
    office.publish()
    fail(office, status=500)
    office.sql("update queues.outbox_delivery set first_at = now() - interval '3 days 1 minute'")
    assert fail(office, status=500) == "parked"


def test_what_kills_each_dispatcher_is_not_counted_but_ends(office: Office) -> None:
    office.publish(subject="a")
    office.publish(subject="a")
    for _ in range(25):
        assert numbers(claim(office)) == [1, 2]
        let_leases_run_out(office)
    office.sql("update queues.outbox_delivery set first_at = now() - interval '3 days 1 minute' where event_id = 1")
    assert numbers(claim(office)) == [2]
    assert office.sql("select state, attempts from queues.outbox_delivery order by event_id") == [
        ("parked", 0),
        ("waiting", 0),
    ]


def test_what_was_not_sent_counts_nothing(office: Office) -> None:
    office.publish()
    tell(office, claim(office), "returned")
    assert office.sql("select attempts, first_at, leased_until from queues.outbox_delivery") == [(0, None, None)]
    assert numbers(claim(office)) == [1]


def test_waiting_grows_from_failure_to_failure_up_to_its_cap(office: Office) -> None:
    office.sink("shop", "https://hooks.example.com", allow_private=False, backoff_base="1 s", backoff_cap="6 hours")
    office.publish()
    waits = []
    for _ in range(17):
        fail(office, status=500)
        waits.append(
            float(office.one("select extract(epoch from next_at - clock_timestamp()) from queues.outbox_delivery"))
        )
    for n, wait in enumerate(waits):
        assert min(2**n, 21600) * 0.9 - 1 < wait <= min(2**n, 21600) * 1.5


@pytest.mark.parametrize(("asked", "given"), [(120, 120), (999_999, 3600)])
def test_a_sink_that_asks_for_a_pause_gets_it_within_an_hour(office: Office, asked: int, given: int) -> None:
    for _ in range(2):
        office.publish()
    fail(office, status=429, retry_after_s=asked)
    pause = office.one("select extract(epoch from resume_at - now()) from queues.sinks")
    assert given - 5 < pause <= given
    assert claim(office) == []


def test_five_failures_in_a_row_pause_the_sink_and_one_event_finds_out(office: Office) -> None:
    office.sql("select queues.put_sink('shop', backoff_base => '1 hour')")
    for _ in range(9):
        office.publish()
    assert tell(office, claim(office, most=6), "failed", status=503, error="x") == ["done"] * 6
    assert office.sql("select failures, resume_at > now() from queues.sinks") == [(5, True)]
    assert claim(office) == []
    office.sql("update queues.sinks set resume_at = 'epoch'")
    (probe,) = claim(office)
    assert tell(office, [probe]) == ["done"]
    assert office.sql("select failures, resume_at = 'epoch' from queues.sinks") == [(0, True)]
    assert len(claim(office)) == 8  # what waited for its retry is due


def test_success_between_failures_pauses_nothing(office: Office) -> None:
    for _ in range(8):
        office.publish()
    for _ in range(4):
        first, second = claim(office, most=2)
        tell(office, [first], "failed", status=500, error="x")
        tell(office, [second])
    assert office.sql("select failures, resume_at = 'epoch' from queues.sinks") == [(0, True)]


def test_a_disabled_sink_keeps_its_events_for_a_while(office: Office) -> None:
    office.publish()
    assert office.one("select queues.enable_sink('shop', false)") == "disabled"
    office.publish()
    assert claim(office) == []
    assert not office.sql("select from queues.dispatch_sinks() where waiting")
    office.sql("select internal.tidy_outbox()")
    assert office.one("select count(*) from queues.outbox_delivery where state = 'waiting'") == 2
    office.sql("update queues.sinks set disabled_at = now() - interval '4 days'")
    office.sql("update queues.outbox_event set created_at = now() - interval '4 days' where id = 1")
    office.sql("select internal.tidy_outbox()")
    assert office.sql("select state from queues.outbox_delivery order by event_id") == [("parked",), ("waiting",)]
    assert office.one("select queues.enable_sink('shop')") == "enabled"
    assert numbers(claim(office)) == [2]


def test_a_dropped_sink_leaves_nothing_that_waits(office: Office) -> None:
    office.publish()
    assert office.one("select queues.drop_sink('shop')") == "dropped"
    assert office.one("select queues.drop_sink('shop')") == "unknown"
    assert office.sql("select sinks_open from queues.outbox_event") == [(0,)]
    assert office.sql("select from queues.outbox_delivery") == []


def test_a_sink_dropped_while_somebody_published_is_tidied_up(office: Office) -> None:
    with psycopg.connect(office.database.app_dsn) as late:
        late.execute("select queues.publish_event('late')")
        office.sql("select queues.drop_sink('shop')")
        late.commit()
    assert office.one("select sinks_open from queues.outbox_event") == 1
    office.sql("select internal.tidy_outbox()")
    assert office.sql("select sinks_open from queues.outbox_event") == [(0,)]


def test_published_events_go_after_their_time_and_parked_ones_later(office: Office) -> None:
    for _ in range(3):
        office.publish()
    claimed = claim(office)
    tell(office, claimed[:1])
    tell(office, claimed[1:2], "failed", status=400, error="x")
    office.sql("update queues.outbox_event set published_at = published_at - interval '8 days' where sinks_open = 0")
    assert office.one("select internal.tidy_outbox()") == 1
    assert [number for (number,) in office.sql("select id from queues.outbox_event order by id")] == [
        claimed[1][0],
        claimed[2][0],
    ]
    office.sql("update queues.outbox_event set published_at = published_at - interval '90 days' where sinks_open = 0")
    assert office.one("select internal.tidy_outbox()") == 1
    assert office.sql("select event_id from queues.outbox_delivery") == [(claimed[2][0],)]


def test_the_leader_tidies(office: Office) -> None:
    office.publish()
    tell(office, claim(office))
    office.sql("update queues.outbox_event set published_at = published_at - interval '8 days'")
    office.sql("select queues.lead('a/1/b', '1 minute')")
    done = office.one("select queues.keep_house((select term from queues.leader))")
    assert done["published_forgotten"] == 1


NO_EVENTS = [
    "publish_event('')", "publish_event(null)", "publish_event('a b')", "publish_event('reproq.task.failed')",
    "publish_event('Reproq.x')", "publish_event('a', '')", "publish_event('a', e'x\\ny')",
    "publish_event('a', repeat('x', 501))",
    "publish_event('a', 'b', to_jsonb(repeat('x', 1100000)))", "publish_event(repeat('x', 201))",
]  # fmt: skip


def test_what_is_no_event_is_refused(office: Office) -> None:
    for call in NO_EVENTS:
        with pytest.raises(psycopg.Error) as refused:
            office.app.execute(f"select queues.{call}".encode())
        assert str(refused.value.sqlstate).startswith("RQ") and refused.value.diag.message_hint


NO_SINKS = [
    "put_sink('new')", "put_sink('New', 'https://a')", "put_sink('a_file', 'https://a')", "put_sink('a', 'ftp://a')",
    "put_sink('a', 'https://user:hunter2@a')", "put_sink('a', 'http://a')", "put_sink('a', 'https://')",
    "put_sink('a', 'https://a', mode => 'fast')", "put_sink('a', 'https://a', timeout => '2 minutes')",
    "put_sink('a', 'https://a', max_attempts => 0)", "put_sink('a', 'https://a#fragment')", "replay_events('nobody')",
    "put_sink('a', 'https://a', backoff_cap => '8 days')", "put_sink('a', 'https://a b')",
]  # fmt: skip


def test_what_is_no_sink_is_refused_without_its_address(office: Office) -> None:
    for call in NO_SINKS:
        with pytest.raises(psycopg.Error) as refused:
            office.sql(f"select queues.{call}")
        assert str(refused.value.sqlstate).startswith("RQ") and "hunter2" not in str(refused.value)


def test_what_is_not_given_keeps_its_value(office: Office) -> None:
    office.sql("select queues.put_sink('shop', type_prefixes => '{a.,b.}', max_attempts => 3, signed => false)")
    assert office.one("select queues.put_sink('shop', mode => 'binary')") == "changed"
    columns = "url, mode, type_prefixes, max_attempts, signed"
    assert office.sql(f"select {columns} from queues.list_sinks()") == [
        ("https://hooks.example.com", "binary", ["a.", "b."], 3, False)
    ]
    office.sql("select queues.put_sink('shop', type_prefixes => '{\"\"}')")
    assert office.one("select type_prefixes from queues.sinks") is None
