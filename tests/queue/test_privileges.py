"""Functions are the only door, and they hold against whatever a caller puts into his session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection

from .conftest import Queue, refused

MAY = "select distinct proname::text as name from pg_proc where has_function_privilege(%s, oid, 'EXECUTE') and "
OURS = "pronamespace::regnamespace::text in ('queues', 'internal')"
APP_MAY = {
    *("enqueue", "enqueue_many", "enqueue_once", "cancel", "task_status"),
    *("cancel_many", "count_chosen", "task_life"),
    *("put_schedule", "drop_schedule", "enable_schedule", "run_schedule", "schedule_slots", "list_schedules"),
    *("cron_next", "cron_fault"),
    *("watch_tasks", "use_token", "serves_code"),
    *("publish_event", "names"),
}
ROLES = ["worker_service_user", "reproq_app", "reproq_reader", "reproq_dispatcher", "reproq_process_author"]


def test_no_function_is_public(q: Queue) -> None:
    assert (
        q.rows(
            f"select oid::regprocedure from pg_proc where {OURS} and has_function_privilege('public', oid, 'EXECUTE')"
        )
        == []
    )


def test_a_function_that_a_later_migration_adds_is_private_too(own: Queue) -> None:
    with own.admin.transaction():
        own.admin.execute("set local role reproq_owner")
        own.admin.execute("create function queues.later() returns int language sql as 'select 1'")
        own.admin.execute("create function internal.later() returns int language sql as 'select 1'")
    for schema in ("queues", "internal"):
        assert not own.value(f"select has_function_privilege('public', '{schema}.later()', 'EXECUTE')")


def test_every_function_pins_its_search_path_with_pg_temp_last(q: Queue) -> None:
    loose = q.rows(
        f"select oid::regprocedure from pg_proc where {OURS}"
        " and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)"
    )
    assert loose == []


@pytest.mark.parametrize("role", ROLES)
def test_no_role_has_a_right_on_a_table(q: Queue, role: str) -> None:
    may = q.rows(
        "select c.oid::regclass from pg_class c where relnamespace::regnamespace::text in ('queues', 'internal')"
        " and relkind in ('r', 'v', 'p')"
        " and has_table_privilege(%s, c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')"
        " and not (%s = 'reproq_reader' and relname::text like '%%\\_redacted')",
        role,
        role,
    )
    assert may == []


def test_an_app_may_call_these_functions_and_no_other(q: Queue) -> None:
    rows = q.rows(MAY + OURS, "reproq_app")
    assert {row["name"] for row in rows} == APP_MAY


def test_a_worker_may_neither_enqueue_nor_cancel_nor_replay(q: Queue) -> None:
    rows = q.rows(MAY + OURS, "worker_service_user")
    found = {row["name"] for row in rows}
    assert not found & {
        "enqueue",
        "enqueue_many",
        "enqueue_once",
        "enqueue_system",
        "cancel",
        "replay",
        "soft_delete",
        "allow_schema",
    }
    assert {"claim", "start", "heartbeat", "finish", "give_back", "run_task"} <= found


def test_an_app_sees_and_cancels_its_own_tasks_only(q: Queue) -> None:
    app = q.database.connect("app")
    mine, theirs = q.value("select queues.enqueue('t')", by=app), q.enqueue()
    assert q.value("select queues.cancel(%s)", theirs, by=app) == "unknown"
    assert q.rows("select * from queues.task_status(%s)", theirs, by=app) == []
    (status,) = q.rows("select * from queues.task_status(%s)", mine, by=app)
    assert (status["task_id"], status["status"], status["leased"]) == (mine, "PENDING", False)
    assert q.value("select queues.cancel(%s)", mine, by=app) == "cancelled"


def steps(q: Queue, app: Connection, worker: Connection) -> dict[str, Any]:
    """One of everything, each step by the role that does it in life."""
    seen: dict[str, Any] = {}
    seen["one"] = q.value(
        "select queues.enqueue('t', '{\"n\": 1.50}', timeout => '90 s', unique_among => 'waiting')", by=app
    )
    seen["twin"] = q.value(
        "select queues.enqueue('t', '{\"n\": 1.50}', unique_among => 'waiting')", by=app
    ) == seen.pop("one")
    seen["many"] = len(
        q.value(
            "select queues.enqueue_many('u', array['{}', '{}']::jsonb[], idempotency_keys => array['a', null])", by=app
        )
    )
    seen["once"] = q.value("select is_new from queues.enqueue_once('u', idempotency_key => 'a')", by=app)
    q.rows("select queues.lie_down('w', array['default'], array['t', 'u'], '30 s')", by=worker)
    pools = Jsonb([{"free": 1, "types": ["t"]}, {"free": 5, "prefixes": ["u"]}])
    claim = (
        "select id, claim_no, task_type, next_hints from queues.claim('w', null, array['t', 'u'], '30 s', %s, %s, %s)"
    )
    first = q.rows(claim, 1, None, pools, by=worker)
    rest = q.rows(claim, 9, Jsonb(first[-1]["next_hints"]), pools, by=worker)
    rows = sorted(first + rest, key=lambda row: int(row["id"]))
    seen["claimed"] = [row["task_type"] for row in rows]
    fences = {"ids": [row["id"] for row in rows], "claim_nos": [row["claim_no"] for row in rows]}
    seen["start"] = {row["answer"] for row in q.call("start", worker, worker_id="w", **fences)}
    seen["heartbeat"] = {
        row["answer"] for row in q.call("heartbeat", worker, worker_id="w", lease="30 s", started=[True] * 3, **fences)
    }
    seen["cancel"] = q.value("select queues.cancel(%s, 'x')", fences["ids"][2], by=app)
    outcomes = [
        {"id": row["id"], "claim_no": 1, "success": row is rows[0], "error": "e", "retry_in_s": 1.5} for row in rows
    ]
    seen["finish"] = [row["answer"] for row in q.call("finish", worker, worker_id="w", outcomes=Jsonb(outcomes))]
    q.rows("update queues.task_runs set run_after = now() where status = 'RETRYING'")
    (again,) = q.rows("select id, worker_id, claim_no from queues.dequeue_next_available_task()", by=worker)
    seen["fail"] = q.value(
        "select queues.fail_task(%s, %s, %s, 'x')", again["id"], again["worker_id"], again["claim_no"], by=worker
    )
    seen["left"] = q.value("select queues.nothing_left(null, null)", by=worker)
    seen["unserved"] = q.rows("select * from queues.unserved()", by=worker)
    seen["rows"] = q.rows(
        "select task_type, status::text, timeout_s, attempt_count, last_error, spec_hash"
        " from queues.task_runs order by id"
    )
    return seen


ATTACK = [
    *(f"create domain pg_temp.{name} as pg_catalog.{name} check (pg_temp.steal())" for name in (
        "text", "int4", "int8", "jsonb", "bool", "interval", "timestamptz", "float8", "numeric")),
    *(f"create temp table {name} as select 1 as id, true as paused, 2 as max_payload_bytes" for name in (
        "task_runs", "settings", "sleeper", "task_types", "workers", "callable_schema", "pg_proc", "pg_namespace",
        "pg_type")),
    "create function pg_temp.now() returns pg_catalog.timestamptz language sql as"
    " 'select pg_temp.steal()::text::timestamptz'",
    "create function pg_temp.starts_with(pg_catalog.text, pg_catalog.text) returns pg_catalog.bool language sql as"
    " 'select pg_temp.steal()'",
    "create function pg_temp.equal(pg_catalog.text, pg_catalog.text) returns pg_catalog.bool language sql as"
    " 'select pg_temp.steal()'",
    "create operator pg_temp.= (leftarg = pg_catalog.text, rightarg = pg_catalog.text, function = pg_temp.equal)",
    "grant all on all tables in schema pg_temp to public",
    "set search_path = pg_temp, pg_catalog, public",
]  # fmt: skip
STEAL = (
    "create function pg_temp.steal() returns pg_catalog.bool language plpgsql as $$ begin"
    " if current_user <> session_user then raise exception 'stolen as %', current_user; end if; return true; end $$"
)


def test_a_pg_temp_full_of_traps_steals_nothing(q: Queue) -> None:
    """With TEMP granted to everybody, as a database has it by default: it belongs to the user's application."""
    assert q.value("select has_database_privilege('reproq_app_login', current_database(), 'TEMP')")
    expected = steps(q, q.database.connect("app"), q.database.connect("worker"))
    q.rows("delete from queues.task_runs")
    trapped = [q.database.connect(role) for role in ("app", "worker")]
    for conn in trapped:
        for statement in (STEAL, *ATTACK):
            conn.execute(statement.encode())
    assert steps(q, *trapped) == expected


def test_the_traps_would_catch_a_function_that_is_not_pinned(own: Queue) -> None:
    """What the test above proves rests on the traps being real."""
    app = own.database.connect("app")
    own.rows("alter function internal.check_enqueue set search_path = ''")
    own.rows("alter function internal.enqueue_row set search_path = ''")
    own.rows("alter function queues.enqueue set search_path = ''")
    for statement in (STEAL, *ATTACK):
        app.execute(statement.encode())
    _, message, _ = refused(lambda: own.value("select queues.enqueue('t', '{}', now())", by=app))
    assert "stolen as reproq_owner" in message


SESSION = {
    "transform_null_equals": "on", "standard_conforming_strings": "off", "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "timezone": "Asia/Kathmandu", "extra_float_digits": "-15", "bytea_output": "escape", "array_nulls": "off",
    "quote_all_identifiers": "on", "default_transaction_isolation": "repeatable read", "enable_indexscan": "off",
    "enable_nestloop": "off", "jit_above_cost": "0", "work_mem": "64kB", "plan_cache_mode": "force_custom_plan",
    "check_function_bodies": "off", "row_security": "off", "constraint_exclusion": "on", "escape_string_warning": "off",
    "from_collapse_limit": "1", "join_collapse_limit": "1", "xmloption": "document", "cursor_tuple_fraction": "0.9",
}  # fmt: skip


@pytest.mark.parametrize("name", SESSION)
def test_the_settings_of_the_callers_session_change_nothing(q: Queue, name: str) -> None:
    expected = steps(q, q.database.connect("app"), q.database.connect("worker"))
    q.rows("delete from queues.task_runs")
    changed = [q.database.connect(role) for role in ("app", "worker")]
    for conn in changed:
        conn.execute(f"set {name} = '{SESSION[name]}'".encode())
    assert steps(q, *changed) == expected


DURABLE: dict[str, Callable[[Queue, Connection], object]] = {
    "claim": lambda q, c: q.call("claim", c, worker_id="w", queues=None, prefixes=None, lease="30 s", max_tasks=1),
    "start": lambda q, c: q.rows("select queues.start('w', '{1}', '{1}')", by=c),
    "heartbeat": lambda q, c: q.rows("select queues.heartbeat('w', '{1}', '{1}', '30 s')", by=c),
    "finish": lambda q, c: q.rows("select queues.finish('w', '[]')", by=c),
    "give_back": lambda q, c: q.rows("select queues.give_back('w', '{1}', '{1}')", by=c),
    "recall": lambda q, c: q.rows("select queues.recall('w', '{}', '{}')", by=c),
    "cancel": lambda q, c: q.rows("select queues.cancel(1)", by=c),
    "soft_delete": lambda q, c: q.rows("select queues.soft_delete(1, 'x')", by=c),
    "replay": lambda q, c: q.rows("select queues.replay(1)", by=c),
    "dequeue": lambda q, c: q.rows("select queues.dequeue_next_available_task()", by=c),
    "complete_task": lambda q, c: q.rows("select queues.complete_task(1, 'w', 1)", by=c),
    "fail_task": lambda q, c: q.rows("select queues.fail_task(1, 'w', 1, 'x')", by=c),
}


@pytest.mark.parametrize("function", DURABLE)
@pytest.mark.parametrize(
    ("default", "during"), [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")]
)
def test_what_was_answered_is_durable_whatever_the_session_says(
    q: Queue, function: str, default: str, during: str
) -> None:
    q.enqueue()
    conn = q.database.connect()
    conn.execute(f"set synchronous_commit = {default}".encode())
    with conn.transaction():
        DURABLE[function](q, conn)
        assert q.value("show synchronous_commit", by=conn) == during
    assert q.value("show synchronous_commit", by=conn) == default


def test_an_update_by_hand_moves_updated_at(q: Queue) -> None:
    task_id = q.enqueue()
    before = q.task(task_id)["updated_at"]
    q.set(task_id, "priority = 5")
    assert q.task(task_id)["updated_at"] > before
    q.set(task_id, "updated_at = '2001-01-01'")
    assert q.value("select updated_at = '2001-01-01' from queues.task_runs")
