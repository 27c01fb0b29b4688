"""queues.measure(): what only the database knows, at a bounded price, told by the leader alone."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.conftest import Database
from tests.metrics.scraped import measured_worker, scrape, scrape_when
from tests.worker.harness import House

Measured = dict[tuple[str, ...], float]


def measure(database: Database) -> Measured:
    rows = database.execute("select name, labels, value from queues.measure()")
    return {(name, *labels.values()): value for name, labels, value in rows}


def fill(database: Database, count: int, task_type: str = "a.type", **more: Any) -> None:
    names = "".join(f", {name} => %s" for name in more)
    statement = (
        f"select queues.enqueue_many('{task_type}', array_agg('{{}}'::jsonb){names}) from generate_series(1, %s)"
    )
    database.execute(statement, *more.values(), count)


@pytest.mark.every_server
def test_tasks_are_counted_by_queue_and_whether_they_are_due(database: Database) -> None:
    fill(database, 3)
    fill(database, 2, "b.type", priority=5)
    fill(database, 4, "b.type", scheduled_at="2999-01-01")
    fill(database, 1, queue_name="slow")
    fill(database, 7, queue_name="later", scheduled_at="2999-01-01")
    database.execute(
        "update queues.task_runs set run_after = now() - interval '90 s' where queue_name = 'default' and priority = 5"
    )
    seen = measure(database)
    assert {key[1:]: value for key, value in seen.items() if key[0] == "reproq_queue_tasks"} == {
        ("default", "ready"): 5,
        ("default", "scheduled"): 4,
        ("slow", "ready"): 1,
        ("slow", "scheduled"): 0,
        ("later", "ready"): 0,
        ("later", "scheduled"): 7,
    }
    assert 90 <= seen["reproq_queue_oldest_ready_seconds", "default"] < 120
    assert seen["reproq_queue_oldest_ready_seconds", "later"] == 0


def test_no_more_than_a_bound_is_counted_however_much_waits(database: Database) -> None:
    fill(database, 21_000)
    fill(database, 30_000, "a.future", scheduled_at="2999-01-01")
    fill(database, 5, queue_name="small")
    seen = measure(database)
    assert seen["reproq_queue_tasks", "default", "ready"] == 20_000
    assert seen["reproq_queue_has_more", "default"] == 1
    assert seen["reproq_queue_tasks", "small", "ready"] == 5
    assert seen["reproq_queue_has_more", "small"] == 0


def test_ready_tasks_are_found_behind_any_number_that_are_not_due(database: Database) -> None:
    fill(database, 30_000, "a.future", scheduled_at="2999-01-01")
    fill(database, 3, "b.ready")
    assert measure(database)["reproq_queue_tasks", "default", "ready"] == 3


def test_dead_letters_are_the_failed_tasks_that_somebody_should_see(database: Database) -> None:
    fill(database, 4)
    database.execute(
        "update queues.task_runs set status = 'FAILED', failure_kind = 'raised', completed_at = now(),"
        " supervised = id = (select min(id) from queues.task_runs)"
    )
    assert measure(database)["reproq_dead_letters",] == 3


def test_events_are_told_by_sink_with_the_age_of_the_oldest(database: Database) -> None:
    for sink in ("crm", "idle"):
        database.execute("select queues.put_sink(%s, 'https://example.org/', type_prefixes => %s)", sink, [f"{sink}."])
    for _ in range(3):
        database.execute("select queues.publish_event('crm.paid')")
    database.execute("update queues.outbox_event set created_at = now() - interval '70 s' where id = 1")
    database.execute("update queues.outbox_delivery set state = 'parked', ended_at = now() where event_id = 2")
    seen = measure(database)
    assert seen["reproq_outbox_deliveries", "crm", "waiting"] == 2
    assert seen["reproq_outbox_deliveries", "crm", "parked"] == 1
    assert seen["reproq_outbox_deliveries", "idle", "waiting"] == 0
    assert 70 <= seen["reproq_outbox_oldest_seconds", "crm"] < 200
    assert seen["reproq_outbox_oldest_seconds", "idle"] == 0


@pytest.mark.every_server
def test_an_old_snapshot_shows_and_what_the_server_hides_is_said(database: Database) -> None:
    """The owner sees its own sessions; of others only a member of pg_read_all_stats hears when they began."""
    old = database.connect("app")
    old.execute("begin transaction isolation level repeatable read")
    old.execute("select 1")
    old.execute("select pg_sleep(0.2)")
    hidden = measure(database)
    assert hidden["reproq_sessions_hidden",] >= 1
    assert hidden["reproq_oldest_snapshot_seconds",] == 0
    database.execute("grant pg_read_all_stats to reproq_owner")
    try:
        seen = measure(database)
        assert seen["reproq_sessions_hidden",] == 0
        assert 0.2 <= seen["reproq_oldest_snapshot_seconds",] < 60
    finally:
        database.execute("revoke pg_read_all_stats from reproq_owner")


@pytest.mark.parametrize(
    ("role", "may"), [("worker_service_user", True), ("reproq_reader", True), ("reproq_app", False)]
)
def test_workers_and_readers_may_measure(database: Database, role: str, may: bool) -> None:
    connection = database.connect("admin")
    connection.execute(f"set role {role}")
    if may:
        assert connection.execute("select from queues.measure()").rowcount > 5
    else:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select from queues.measure()")


def test_only_the_leader_tells_what_the_database_knows(house: House) -> None:
    house.app("@task('some.type')\ndef some(payload): pass\n")
    house.enqueue("other.type", scheduled_at="2999-01-01")
    first = measured_worker(house)
    seen = scrape_when(first, lambda s: s.value("reproq_measure_complete"))
    second = measured_worker(house)
    scrape_when(second, lambda s: s.value("reproq_worker_ready"))
    assert seen.value("reproq_queue_tasks", queue="default", status="scheduled") == 1
    assert seen.value("reproq_worker_leading") == 1
    assert "reproq_queue_tasks" not in scrape(second).names
    first.process.kill()
    house.sql("update queues.leader set until = now()")
    taken = scrape_when(second, lambda s: s.value("reproq_measure_complete"))
    assert taken.value("reproq_worker_leading") == 1
