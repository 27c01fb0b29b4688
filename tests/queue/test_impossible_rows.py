"""Each CHECK refuses the row that it is there for."""

from __future__ import annotations

import psycopg
import pytest

from .conftest import Queue
from .impossible_events import EVENTS_AND_TOKENS

# constraint -> table, the assignments that break this one and no other
REFUSED = {
    "running_is_leased": ("task_runs", "status = 'RUNNING'"),
    "completed_is_final": ("task_runs", "completed_at = now()"),
    "an_end_says_how": (
        "task_runs", "status = 'SUCCESSFUL', completed_at = now(), result_json = '1', last_error = 'x'"),
    "attempts_are_bounded": ("task_runs", "attempt_count = max_attempts + 1"),
    "max_attempts_in_range": ("task_runs", "max_attempts = 100001"),
    "priority_in_range": ("task_runs", "priority = 1000001"),
    "run_after_is_a_date": ("task_runs", "run_after = 'infinity'"),
    "payload_is_an_object": ("task_runs", "payload_json = '[]'"),
    "only_waiting_waits": (
        "task_runs", "waiting_for = 1, status = 'SUCCESSFUL', completed_at = now(), result_json = '1'"),
    "a_slot_is_of_a_key": ("task_runs", "limit_slot = 1"),
    "counters_are_counts": ("task_runs", "give_backs = -1"),
    "timeout_is_positive": ("task_runs", "timeout_s = 0"),
    "unique_among_is_known": ("task_runs", "unique_among = 'all'"),
    "key_has_a_length": ("task_runs", "idempotency_key = ''"),
    "trace_has_a_length": ("task_runs", "trace = repeat('x', 1001)"),
    "reason_needs_deletion": ("task_runs", "delete_reason = 'x'"),
    "audit_is_known": ("queue_settings", "audit = 'none'"),
    "lease_is_positive": ("task_types", "lease = '0'"),
    "backoff_is_positive": ("task_types", "backoff_cap = '367 days'"),
    "settings_only_row_check": ("settings", "only_row = false"),
    "leader_only_row_check": ("leader", "only_row = false"),
    "settings_max_payload_bytes_check": ("settings", "max_payload_bytes = 1"),
    "settings_max_depth_check": ("settings", "max_depth = 65"),
    "settings_max_digits_check": ("settings", "max_digits = 1001"),
    "settings_max_give_backs_check": ("settings", "max_give_backs = 0"),
    "settings_keep_successful_check": ("settings", "keep_successful = '-1 s'"),
    "settings_keep_cancelled_check": ("settings", "keep_cancelled = '-1 s'"),
    "settings_keep_failed_check": ("settings", "keep_failed = '-1 s'"),
    "settings_keep_events_check": ("settings", "keep_events = '-1 s'"),
    "settings_keep_processes_check": ("settings", "keep_processes = '59 min'"),
    "queue_settings_keep_successful_check": ("queue_settings", "keep_successful = '-1 s'"),
    "queue_settings_keep_cancelled_check": ("queue_settings", "keep_cancelled = '-1 s'"),
    "queue_settings_keep_failed_check": ("queue_settings", "keep_failed = '-1 s'"),
}  # fmt: skip
_SCHEDULE = "insert into queues.schedules (schedule_name, task_type, cron, every, catch_up) values "
_LIMIT = "insert into queues.limits (scope, name, concurrency, rate, burst) values "
_FILE = "insert into internal.process_file (source, name, sha256) values "
FOR_INSERT = {
    "event_is_known": "insert into queues.task_events (task_id, event) values (1, 'eaten')",
    "engine_is_not_callable": "insert into internal.callable_schema (schema_name) values ('queues')",
    "schedule_name_is_plain": _SCHEDULE + "('a b', 't', '* * * * *', null, 'one')",
    "every_is_positive": _SCHEDULE + "('s', 't', null, '0', 'one')",
    "catch_up_is_known": _SCHEDULE + "('s', 't', '* * * * *', null, 'some')",
    "cron_or_every": _SCHEDULE + "('s', 't', null, null, 'one')",
    "scope_is_known": _LIMIT + "('shelf', 'x', 1, null, null)",
    "limit_has_a_name": _LIMIT + "('key', '', 1, null, null)",
    "concurrency_in_range": _LIMIT + "('key', 'x', 0, null, null)",
    "rate_in_range": _LIMIT + "('key', 'x', null, 0, 1)",
    "burst_holds_one": _LIMIT + "('key', 'x', null, 1, 0.5)",
    "limit_limits_something": _LIMIT + "('key', 'x', null, null, null)",
    "rate_has_a_bucket": _LIMIT + "('key', 'x', 1, 1, null)",
    "policy_is_known": "insert into queues.task_dependency (parent_id, child_id, policy) values (1, 2, 'maybe')",
    "retention_only_row_check": "insert into internal.retention (only_row) values (false)",
    "flow_only_row_check": "insert into internal.flow (only_row) values (false)",
    "name_has_a_length": _FILE + "('s', '', 'x')",
    "source_has_a_length": _FILE + "('', 'n', 'x')",
    **EVENTS_AND_TOKENS,
}
MORE = [
    ("running_is_leased", "leased_until = now()"),
    ("running_is_leased", "status = 'CANCELLED', completed_at = now(), leased_until = now()"),
    ("running_is_leased",
     "status = 'FAILED', failure_kind = 'x', completed_at = now(), worker_id = 'w', leased_until = now()"),
    ("completed_is_final", "status = 'CANCELLED'"),
    ("completed_is_final", "status = 'SUCCESSFUL', result_json = '1'"),
    ("completed_is_final", "status = 'FAILED', failure_kind = 'x'"),
    ("an_end_says_how", "status = 'SUCCESSFUL', completed_at = now()"),
    ("an_end_says_how", "status = 'SUCCESSFUL', completed_at = now(), result_json = '1', failure_kind = 'x'"),
    ("an_end_says_how", "status = 'SUCCESSFUL', completed_at = now(), result_json = '1', error_json = '{}'"),
    ("an_end_says_how", "status = 'FAILED', completed_at = now()"),
    ("counters_are_counts", "waiting_for = -1"),
    ("a_slot_is_of_a_key", "limit_key = 'k', limit_slot = 0"),
    ("key_has_a_length", "limit_key = ''"),
    ("key_has_a_length", "limit_key = repeat('x', 501)"),
    ("counters_are_counts", "attempt_count = -1"),
    ("max_attempts_in_range", "max_attempts = 0"),
    ("counters_are_counts", "claim_no = -1"),
    ("run_after_is_a_date", "run_after = '-infinity'"),
    ("priority_in_range", "priority = -1000001"),
]  # fmt: skip


def test_every_check_has_a_row_here(q: Queue) -> None:
    names = q.rows(
        "select distinct conname::text as name from pg_constraint where contype = 'c'"
        " and conname not in ('task_type_check', 'queue_name_check')"
        " and connamespace::regnamespace::text in ('queues', 'internal') order by 1"
    )
    assert {row["name"] for row in names} == REFUSED.keys() | FOR_INSERT.keys() | {"schema_version_only_row_check"} & {
        row["name"] for row in names
    }


def refusal(q: Queue, statement: str) -> str | None:
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        q.rows(statement)
    return caught.value.diag.constraint_name


@pytest.mark.parametrize(("name", "row"), [(name, row) for name, (_, row) in REFUSED.items()])
def test_a_check_refuses_its_row(q: Queue, name: str, row: str) -> None:
    q.enqueue()
    q.declare("t")
    q.rows("insert into queues.queue_settings (queue_name) values ('default') on conflict do nothing")
    assert refusal(q, f"update queues.{REFUSED[name][0]} set {row}") == name


@pytest.mark.parametrize(("name", "row"), MORE)
def test_a_check_refuses_its_other_rows_too(q: Queue, name: str, row: str) -> None:
    q.enqueue()
    assert refusal(q, f"update queues.task_runs set {row}") == name


@pytest.mark.parametrize(("name", "statement"), FOR_INSERT.items())
def test_a_check_refuses_to_insert_its_row(q: Queue, name: str, statement: str) -> None:
    assert refusal(q, statement) == name


def test_a_cancelled_row_may_hold_a_lease(q: Queue) -> None:
    row = q.claimed()
    assert q.cancel(row.id) == "stopping"
    assert q.task(row.id)["leased_until"] is not None


def test_bad_names_are_refused_by_their_domains(q: Queue) -> None:
    q.enqueue()
    for column in ("task_type", "queue_name"):
        for name in ("", "_x", "a b", "é", "a\n", "x" * 201):
            with pytest.raises(psycopg.errors.CheckViolation):
                q.rows(f"update queues.task_runs set {column} = %s", name)


@pytest.mark.parametrize("table", ["task_events", "error"])
@pytest.mark.parametrize("statement", ["update queues.{} set detail = null", "truncate queues.{}"])
def test_what_happened_can_not_be_rewritten(q: Queue, table: str, statement: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        q.rows(statement.format(table))
    assert caught.value.sqlstate == "RQ004"
