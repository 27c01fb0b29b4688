"""Cron expressions as the database reads them; cronsim is the judge."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from cronsim import CronSim, CronSimError
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.conftest import Database

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    # Of a range of one number with a step (5-5/2) cronsim makes one to the end.
    ranges = st.tuples(number, number).map(sorted).filter(lambda pair: pair[0] < pair[1])
    return st.one_of(
        st.just("*"),
        number.map(str),
        st.integers(2, 30).map(lambda step: f"*/{step}"),
        ranges.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(ranges, st.integers(1, 9)).map(lambda found: f"{found[0][0]}-{found[0][1]}/{found[1]}"),
        st.lists(number, min_size=2, max_size=4).map(lambda found: ",".join(map(str, found))),
    )


days = st.one_of(st.just("*"), field(1, 31), st.just("L"))
weekdays = st.one_of(st.just("*"), field(0, 7), st.sampled_from(["MON-FRI", "sun", "5L", "1#2", "MON,WED", "7"]))
months = st.one_of(st.just("*"), field(1, 12), st.sampled_from(["JAN", "mar-may"]))
expressions = st.tuples(field(0, 59), field(0, 23), days, months, weekdays).map(" ".join)
# Mostly around the nights on which some clock is changed.
moments = st.one_of(
    st.sampled_from([(2026, 3, 28), (2026, 10, 24), (2026, 3, 7), (2026, 10, 31), (2026, 4, 4), (2026, 10, 3)]),
    st.tuples(st.integers(2024, 2030), st.integers(1, 12), st.integers(1, 28)),
).flatmap(
    lambda day: st.integers(0, 2880 * 60).map(
        lambda s: datetime(day[0], day[1], day[2], tzinfo=UTC) + timedelta(seconds=s)
    )
)


def judged(expression: str, zone: str, after: datetime, count: int) -> list[datetime]:
    """Real moments, each once: where the clock jumps over several slots, cronsim names the jump for each of them."""
    found: list[datetime] = []
    for slot in islice(CronSim(expression, after.astimezone(ZoneInfo(zone))), 200):
        moment = slot.astimezone(UTC)
        if moment > after and moment not in found:
            found.append(moment)
        if len(found) == count:
            break
    return found


def test_slots_are_those_of_cronsim(database: Database) -> None:
    connection = database.connect()

    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(expression=expressions, zone=st.sampled_from(ZONES), after=moments)
    def check(expression: str, zone: str, after: datetime) -> None:
        minute, hour, *_ = expression.split()
        # cronsim steps by whole hours, and loses half of one where the clock is changed by half an hour.
        assume(zone != "Australia/Lord_Howe" or not (minute.startswith("*") or hour.startswith("*")))
        try:
            want = judged(expression, zone, after, 4)
        except CronSimError:
            want = []
        at = after
        got: list[datetime] = []
        for _ in want:
            row: Any = connection.execute("select queues.cron_next(%s, %s, %s)", (expression, zone, at)).fetchone()
            at = row[0].astimezone(UTC)
            got.append(at)
        assert got == want, (expression, zone, after)

    check()


def slots(database: Database, expression: str, zone: str, after: str, count: int) -> list[str]:
    found = []
    for _ in range(count):
        sql = "select to_char(queues.cron_next(%s, %s, %s::timestamptz) at time zone 'UTC', 'DD HH24:MI') || 'Z'"
        found.append(database.execute(sql, expression, zone, after)[0][0])
        after = database.execute("select queues.cron_next(%s, %s, %s::timestamptz)::text", expression, zone, after)[0][
            0
        ]
    return found


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00Z", ["29 01:00Z", "30 00:30Z"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-28 12:00Z", ["29 01:00Z", "30 00:00Z"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00Z", ["25 00:30Z", "26 01:30Z"]),
        ("*/30 * * * *", "Europe/Berlin", "2026-10-25 00:20Z", ["25 00:30Z", "25 01:00Z", "25 01:30Z", "25 02:00Z"]),
        ("30 2 * * *", "America/New_York", "2026-03-07 12:00Z", ["08 07:00Z", "09 06:30Z"]),
        ("30 1 * * *", "America/New_York", "2026-10-31 12:00Z", ["01 05:30Z", "02 06:30Z"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00Z", ["03 15:30Z", "04 15:15Z"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00Z", ["04 14:45Z", "05 15:15Z"]),
        ("*/15 * * * *", "Australia/Lord_Howe", "2026-04-04 14:40Z", ["04 14:45Z", "04 15:00Z", "04 15:15Z"]),
        ("* 9 * * *", "Australia/Lord_Howe", "2026-10-03 03:14Z", ["03 22:00Z", "03 22:01Z"]),
        ("0 0 29 2 *", "UTC", "2026-01-01", ["29 00:00Z"]),
        ("0 0 31 * *", "UTC", "2026-01-31 01:00Z", ["31 00:00Z", "31 00:00Z"]),
        ("0 0 L * *", "UTC", "2026-02-01", ["28 00:00Z", "31 00:00Z"]),
        ("0 0 13 * 5", "UTC", "2026-02-01", ["06 00:00Z", "13 00:00Z"]),
        ("@daily", "Asia/Kolkata", "2026-02-01", ["01 18:30Z"]),
    ],
)
def test_nights_on_which_clocks_change_and_days_that_are_rare(
    database: Database, expression: str, zone: str, after: str, expected: list[str]
) -> None:
    assert slots(database, expression, zone, after, len(expected)) == expected


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 * ", "* * * * 8",
     "*/0 * * * *", "5-1 * * * *", "a * * * *", "* * * * MOON",
     "1.5 * * * *", "-1 * * * *", "1- * * * *", "*-5 * * * *",
     "@never", "x" * 500, "0 0 30 2 *", "0 0 31 4,6 *", "* * * * 1#6", "* * ; drop * *"],
)  # fmt: skip
def test_a_bad_expression_is_refused_in_one_line(database: Database, expression: str) -> None:
    (fault,) = database.execute("select queues.cron_fault(%s, 'UTC')", expression)[0]
    assert fault
    assert "\n" not in fault
    with pytest.raises(psycopg.Error) as refused:
        database.execute("select queues.put_schedule('s', 't', cron => %s)", expression)
    assert refused.value.sqlstate == "RQ003"


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "CEST", "+02:00", "europe/berlin2"])
def test_a_zone_that_is_no_place_is_refused(database: Database, zone: str) -> None:
    assert "no time zone" in database.execute("select queues.cron_fault('* * * * *', %s)", zone)[0][0]


def test_blanks_around_an_expression_mean_nothing(database: Database) -> None:
    sql = "select queues.cron_next(%s, 'UTC', '2030-01-01 00:00+00') = '2030-01-01 12:30+00'"
    assert database.execute(sql, "\t30 \t 12 * * *\r\n") == [(True,)]
