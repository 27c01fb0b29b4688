"""What a supervisor concludes from its facts: a pure function, so time is an argument."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from .conftest import Post

DUE = datetime(2030, 1, 1, tzinfo=UTC)
HOUR, DAY = 3600, 86400
# Facts of a send that is due and has not been tried. Times are in seconds since it was due.
NOTHING_YET: dict[str, Any] = {
    "at": 0,
    "scheduled_at": 0,
    "patience": DAY,
    "max_attempts": 6,
    "run_limit": 20,
    "backoff_base": 10,
    "backoff_cap": HOUR,
    "check_base": 2,
    "check_cap": 300,
    "has_ended": False,
    "has_succeeded": False,
    "decisions": 0,
    "failures": 0,
    "attempts_used": 0,
    "unknowns": 0,
    "lookups": 0,
}
TIMES = {"at", "scheduled_at", "last_failed_at", "first_started_at", "unknown_at", "not_found_at", "waits_since"}
SPANS = {"patience", "backoff_base", "backoff_cap", "check_base", "check_cap", "retry_after"}
FAILED_ONCE = {"failures": 1, "attempts_used": 1, "last_failed_at": 0, "first_started_at": 0, "decisions": 1}
UNKNOWN = {"unknown_at": 0, "unknowns": 1, "first_started_at": 0, "decisions": 2}


def decide(mail: Post, facts: dict[str, Any]) -> tuple[str, Any]:
    """(over, None), (end, (outcome, reason)), (schedule, purpose) or (wait, second of the next check)."""
    document = {name: _as_sql(name, value) for name, value in (NOTHING_YET | facts).items()}
    (row,) = mail.rows(
        "select d.* from jsonb_populate_record(null::comms.process_facts, %s) f, lateral comms.decide(f) d",
        Jsonb(document),
    )
    verdict = row["verdict"]
    if verdict == "end":
        return verdict, (row["outcome"], row["reason"])
    if verdict == "wait":
        return verdict, (row["next_check"] - DUE).total_seconds()
    return verdict, row["purpose"]


def _as_sql(name: str, value: Any) -> Any:
    if name in TIMES:
        return (DUE + timedelta(seconds=value)).isoformat()
    return f"{value} seconds" if name in SPANS else value


@pytest.mark.parametrize(
    ("what", "facts", "decision"),
    [
        ("due and never tried", {}, ("schedule", "send")),
        ("due tomorrow", {"scheduled_at": DAY}, ("wait", DAY)),
        ("ended", {"has_ended": True, "has_succeeded": True}, ("over", None)),
        ("succeeded", {"has_succeeded": True}, ("end", ("succeeded", None))),
        ("an attempt waits for 1 s", {"attempt_id": 1, "at": 1, "waits_since": 0}, ("wait", 3)),
        ("an attempt waits for a minute", {"attempt_id": 1, "at": 60, "waits_since": 0}, ("wait", 120)),
        (
            "an attempt waits for a day: no process dies of a slow queue",
            {"attempt_id": 1, "at": DAY, "waits_since": 0},
            ("wait", DAY + 300),
        ),
        ("failed just now", FAILED_ONCE, ("wait", 10)),
        ("failed 10 s ago", FAILED_ONCE | {"at": 10}, ("schedule", "send")),
        ("failed for the fifth time", FAILED_ONCE | {"failures": 5, "attempts_used": 5}, ("wait", 160)),
        ("failed for the 40th time", FAILED_ONCE | {"failures": 40}, ("wait", HOUR)),
        ("the provider asked for patience", FAILED_ONCE | {"retry_after": 500}, ("wait", 500)),
        ("the provider asked for less than the back-off", FAILED_ONCE | {"retry_after": 1}, ("wait", 10)),
        ("all attempts are used up", FAILED_ONCE | {"attempts_used": 6}, ("end", ("failed", "attempts_used_up"))),
        (
            "no attempt can mend it",
            FAILED_ONCE | {"permanent_kind": "provider_refused"},
            ("end", ("failed", "provider_refused")),
        ),
        ("it decided 20 times", FAILED_ONCE | {"decisions": 20}, ("end", ("run_limit", "run_limit"))),
        (
            "a day of failures",
            FAILED_ONCE | {"last_failed_at": DAY - 5, "at": DAY - 5},
            ("end", ("deadline", "no_attempt_in_time")),
        ),
        ("first tried after a week", {"at": 7 * DAY}, ("schedule", "send")),
        (
            "first tried and failed after a week",
            FAILED_ONCE | {"at": 7 * DAY, "first_started_at": 7 * DAY, "last_failed_at": 7 * DAY},
            ("wait", 7 * DAY + 10),
        ),
        ("unknown, and the provider offers nothing", UNKNOWN, ("end", ("unknown", "answer_lost"))),
        ("unknown, the provider remembers keys", UNKNOWN | {"resolves_by": "resend"}, ("wait", 10)),
        (
            "unknown, the provider remembers keys, 10 s later",
            UNKNOWN | {"resolves_by": "resend", "at": 10},
            ("schedule", "send"),
        ),
        (
            "unknown for 23 h",
            UNKNOWN | {"resolves_by": "resend", "unknown_at": 23 * HOUR - 5, "at": 23 * HOUR},
            ("end", ("unknown", "key_expired")),
        ),
        (
            "unknown, and then refused for good",
            UNKNOWN | FAILED_ONCE | {"resolves_by": "resend", "permanent_kind": "x"},
            ("end", ("unknown", "x")),
        ),
        (
            "unknown, and the decisions are used up",
            UNKNOWN | {"resolves_by": "resend", "decisions": 20},
            ("end", ("unknown", "run_limit")),
        ),
        (
            "unknown, the caller prefers two to none",
            UNKNOWN | {"on_unknown": "resend", "resolves_by": "park", "at": 10},
            ("schedule", "send"),
        ),
        (
            "unknown, the caller wants to be asked",
            UNKNOWN | {"on_unknown": "park", "resolves_by": "resend"},
            ("end", ("unknown", "answer_lost")),
        ),
        ("unknown, the provider can be asked", UNKNOWN | {"resolves_by": "lookup"}, ("wait", 2)),
        (
            "unknown, the provider can be asked, 2 s later",
            UNKNOWN | {"resolves_by": "lookup", "at": 2},
            ("schedule", "lookup"),
        ),
        (
            "not found after 10 s",
            UNKNOWN | {"resolves_by": "lookup", "at": 10, "not_found_at": 10, "lookups": 3, "failures": 3},
            ("wait", 16),
        ),
        (
            "not found after 61 s",
            UNKNOWN | {"resolves_by": "lookup", "at": 61, "not_found_at": 61, "lookups": 6},
            ("end", ("unknown", "not_found")),
        ),
        (
            "unknown, the caller prefers two to none, and the provider can be asked",
            UNKNOWN | {"on_unknown": "resend", "resolves_by": "lookup", "at": 2},
            ("schedule", "lookup"),
        ),
        (
            "not found after 61 s, and the caller prefers two to none",
            UNKNOWN
            | {"on_unknown": "resend", "resolves_by": "lookup", "not_found_at": 61, "last_failed_at": 61}
            | {"at": 71, "lookups": 6, "failures": 6},
            ("schedule", "send"),
        ),
        (
            "unknown, the caller wants to be asked, and so can the provider",
            UNKNOWN | {"on_unknown": "park", "resolves_by": "lookup", "at": 2},
            ("schedule", "lookup"),
        ),
        (
            "lookups fail for a day",
            UNKNOWN | {"resolves_by": "lookup", "at": DAY, "lookups": 6},
            ("end", ("unknown", "no_lookup_in_time")),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_decisions(mail: Post, what: str, facts: dict[str, Any], decision: tuple[str, Any]) -> None:
    assert decide(mail, facts) == decision, what


def test_looks_become_rarer_with_the_age_of_what_is_waited_for(mail: Post) -> None:
    at, checks = 0.0, []
    while at < HOUR:
        at = decide(mail, {"attempt_id": 1, "at": at, "waits_since": 0})[1]
        checks.append(at)
    assert checks[:6] == [2, 4, 8, 16, 32, 64]
    assert len(checks) < 25


def test_looks_at_a_known_end_become_more_frequent_as_it_comes_near(mail: Post) -> None:
    left, looks = 24 * 60.0, 0
    while left > 1:
        left -= float(
            mail.value("select extract(epoch from comms.halving_delay(%s * interval '1 min', '1 min')) / 60", left)
        )
        looks += 1
    assert looks < 15
