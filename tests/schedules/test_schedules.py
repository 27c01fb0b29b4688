"""Schedules enqueue each slot once, whoever does it and however late; the clock is an argument."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from reproq.db.connect import connect
from tests.conftest import Database
from tests.worker.harness import House, wait_until

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


def put(database: Database, name: str = "s", **given: Any) -> None:
    given = {"task_type": "t", "cron": "0 * * * *"} | given
    if "every" in given:
        given["cron"] = None
    places = ", ".join(f"{key} => %s" for key in given)
    database.execute(f"select queues.put_schedule(%s, {places})", name, *given.values())
    database.execute("update queues.schedules set next_slot = %s where schedule_name = %s", NOON, name)


def enqueue_due(database: Database, at: datetime) -> int:
    return int(database.execute("select internal.enqueue_due_slots(%s)", at)[0][0])


def due(database: Database) -> list[datetime]:
    rows = database.execute("select run_after from queues.task_runs order by run_after")
    return [row[0].astimezone(UTC) for row in rows]


def schedule(database: Database, name: str = "s") -> dict[str, Any]:
    sql = "select to_jsonb(s) from queues.schedules s where schedule_name = %s"
    return dict(database.execute(sql, name)[0][0])


def test_a_slot_is_enqueued_when_it_is_due_and_once(database: Database) -> None:
    put(database, payload=psycopg.types.json.Jsonb({"n": 1}), queue_name="q", priority=7, max_attempts=9)
    assert enqueue_due(database, NOON - timedelta(seconds=1)) == 0
    assert enqueue_due(database, NOON) == 1
    assert enqueue_due(database, NOON + timedelta(minutes=59)) == 0
    (row,) = database.execute(
        "select task_type::text, payload_json, queue_name::text, priority, max_attempts from queues.task_runs"
    )
    assert row == ("t", {"n": 1}, "q", 7, 9)
    assert due(database) == [NOON]


def test_many_at_once_enqueue_each_slot_once(database: Database) -> None:
    for number in range(20):
        put(database, f"s{number}", catch_up="all")

    def run(_number: int) -> None:
        with connect(database.dsn, name="test") as connection:
            for hour in range(10):
                connection.execute("select internal.enqueue_due_slots(%s)", (NOON + timedelta(hours=hour),))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))
    enqueue_due(database, NOON + timedelta(hours=9))
    assert due(database) == sorted([NOON + timedelta(hours=hour) for hour in range(10)] * 20)


def test_a_slot_does_not_come_twice_even_when_the_row_is_put_back(database: Database) -> None:
    put(database)
    enqueue_due(database, NOON)
    database.execute("update queues.schedules set next_slot = %s", NOON)
    enqueue_due(database, NOON)
    assert due(database) == [NOON]


@pytest.mark.parametrize(("catch_up", "hours"), [("none", []), ("one", [5]), ("all", [0, 1, 2, 3, 4, 5])])
@pytest.mark.parametrize("given", [{"cron": "0 * * * *"}, {"every": timedelta(hours=1)}], ids=["cron", "interval"])
def test_what_was_missed_is_caught_up_as_the_schedule_says(
    database: Database, given: dict[str, Any], catch_up: str, hours: list[int]
) -> None:
    put(database, catch_up=catch_up, **given)
    enqueue_due(database, NOON + timedelta(hours=5, minutes=30))
    assert due(database) == [NOON + timedelta(hours=hour) for hour in hours]
    enqueue_due(database, NOON + timedelta(hours=6, seconds=30))
    assert due(database)[-1] == NOON + timedelta(hours=6)


def test_a_paused_schedule_waits_and_a_resumed_one_goes_on(database: Database) -> None:
    put(database, catch_up="none")
    assert database.execute("select queues.enable_schedule('s', false)") == [("paused",)]
    assert enqueue_due(database, NOON) == 0
    assert database.execute("select queues.enable_schedule('s')") == [("enabled",)]
    assert enqueue_due(database, NOON + timedelta(hours=3)) == 1
    assert due(database) == [NOON + timedelta(hours=3)]
    assert database.execute("select queues.enable_schedule('nobody')") == [("unknown",)]


def test_a_schedule_runs_now_beside_its_slots(database: Database) -> None:
    put(database)
    (first,) = database.execute("select queues.run_schedule('s')")[0]
    (second,) = database.execute("select queues.run_schedule('s')")[0]
    assert first != second
    assert schedule(database)["next_slot"].startswith("2030-06-01T12")
    assert database.execute("select queues.run_schedule('nobody')") == [(None,)]


def test_the_next_five_slots_are_told(database: Database) -> None:
    put(database)
    rows = database.execute("select queues.schedule_slots('s')")
    assert [row[0].astimezone(UTC) for row in rows] == [NOON + timedelta(hours=hour) for hour in range(5)]


def test_the_days_of_an_interval_are_the_same_for_every_session(database: Database) -> None:
    put(database, cron=None, every=timedelta(days=1))
    database.execute("update queues.schedules set next_slot = '2030-03-30 12:00+00'")
    told = "select slot at time zone 'UTC' from queues.schedule_slots('s', 2) slot"
    with connect(database.dsn, name="test") as conn:
        conn.execute("set timezone = 'Europe/Berlin'")
        assert conn.execute(told).fetchall() == [(datetime(2030, 3, 30, 12),), (datetime(2030, 3, 31, 12),)]


def test_of_missed_months_the_latest_is_caught_up(database: Database) -> None:
    put(database, cron=None, every="1 month")
    database.execute("update queues.schedules set next_slot = '2030-07-01 00:00+00'")
    assert enqueue_due(database, datetime(2030, 8, 30, 23, tzinfo=UTC)) == 1
    assert due(database) == [datetime(2030, 8, 1, tzinfo=UTC)]


def test_one_bad_schedule_stops_no_other_and_says_why(database: Database) -> None:
    put(database, "bad", payload=psycopg.types.json.Jsonb({"long": "x" * 5000}))
    put(database, "good")
    database.execute("update queues.settings set max_payload_bytes = 1000")
    assert enqueue_due(database, NOON) == 1
    bad = schedule(database, "bad")
    assert "bytes" in bad["last_error"]
    assert bad["next_slot"].startswith("2030-06-01T12")
    assert database.execute("select source, function_name from queues.error") == [("schedule", "bad")]
    database.execute("update queues.settings set max_payload_bytes = 100000")
    assert enqueue_due(database, NOON + timedelta(seconds=30)) == 0  # a minute later, not before
    assert enqueue_due(database, NOON + timedelta(seconds=61)) == 1
    assert schedule(database, "bad")["last_error"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'s', 't'", "either a cron expression or an interval"),
        ("'s', 't', cron => '* * * * *', every => '1 h'", "either a cron expression or an interval"),
        ("'s', 't', every => '0'", "an interval lies within"),
        ("'s', 't', every => '1 ms'", "an interval lies within"),
        ("'s', 't', every => '1 month -29 days'", "no part of an interval is negative"),
        ("'a b', 't', every => '1 h'", "a schedule's name"),
        ("'s', 'a b', every => '1 h'", "bad task type"),
        ("'s', 't', '[]', every => '1 h'", "payload must be a JSON object"),
        ("'s', 't', every => '1 h', catch_up => 'some'", "catch_up is"),
        ("'s', 't', every => '1 h', time_zone => 'Mars'", "no time zone"),
        ("'s', 'db_function', '{\"db_function\": \"comms.resume_supervisors\"}', every => '1 h'", "may not run"),
    ],
)
def test_a_bad_schedule_is_refused_at_its_entry(database: Database, arguments: str, message: str) -> None:
    with pytest.raises(psycopg.Error, match=message), connect(database.app_dsn, name="test") as app:
        app.execute(f"select queues.put_schedule({arguments})".encode())
    assert database.execute("select * from queues.schedules") == []


def test_a_schedule_belongs_to_who_made_it_and_so_do_its_tasks(database: Database) -> None:
    with connect(database.app_dsn, name="test") as app:
        app.execute("select queues.put_schedule('mine', 't', every => '1 h')")
        put(database, "others")
        with pytest.raises(psycopg.Error, match="belongs to somebody else"):
            app.execute("select queues.put_schedule('others', 't', every => '1 h')")
        for call in ("drop_schedule", "enable_schedule"):
            row = app.execute(f"select queues.{call}('others')".encode()).fetchone()
            assert row == ("unknown",)
        database.execute("update queues.schedules set next_slot = %s", NOON)
        enqueue_due(database, NOON)
        mine = database.execute("select id from queues.task_runs where created_by = 'reproq_app_login'")
        assert len(mine) == 1
        assert app.execute("select task_id from queues.task_status(%s)", mine[0]).fetchall() == mine
        assert app.execute("select queues.drop_schedule('mine')").fetchall() == [("dropped",)]


def test_workers_keep_time_and_another_takes_over_when_the_leader_dies(house: House) -> None:
    house.app("@task('tick')\ndef tick(payload, ctx): return 1\n")
    flags = ("--lease", "3s", "--heartbeat", "1s", "--poll-interval", "100ms")
    workers = [house.worker(*flags).ready() for _ in range(2)]
    wait_until(lambda: any(worker.events("leading") for worker in workers), house.story)
    leader = next(worker for worker in workers if worker.events("leading"))
    other = next(worker for worker in workers if worker is not leader)
    house.sql("select queues.put_schedule('often', 'tick', every => '1 second', catch_up => 'all')")
    ticks = "select count(*) from queues.task_runs where status = 'SUCCESSFUL'"
    wait_until(lambda: house.one(ticks) >= 2, house.story)
    leader.send(signal.SIGKILL)
    other.wait_event("leading")
    seen = house.one(ticks)
    wait_until(lambda: house.one(ticks) >= seen + 4, house.story)
    house.sql("select queues.enable_schedule('often', false)")
    gaps = house.sql(
        "select distinct run_after - lag(run_after) over (order by run_after)"
        " from queues.task_runs where task_type = 'tick'"
    )
    assert {gap for (gap,) in gaps} == {None, timedelta(seconds=1)}  # none missing, none twice
    assert other.stop() == 0
