"""What each role can do if its login is stolen, tried with a real login of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection, as_sql

from .conftest import Queue, refused, wait_until

CANARY = "canary-5f1c"
RELATIONS = (
    "select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace"
    " where n.nspname in ('queues', 'internal', 'comms') and c.relkind in ('r', 'p', 'v', 'm') order by 1"
)
SEQUENCES = (
    "select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace"
    " where n.nspname in ('queues', 'internal', 'comms') and c.relkind = 'S' order by 1"
)
REDACTED = {
    f"queues.{name}_redacted"
    for name in ("tasks", "dead_letter", "events", "errors", "workers", "queues", "outbox", "deliveries", "sinks")
}
ROLES = ["worker_service_user", "reproq_app", "reproq_reader", "reproq_dispatcher", "reproq_process_author"]


@pytest.fixture
def login(q: Queue) -> Iterator[Callable[[str], Connection]]:
    """A login that is a member of one role and nothing else."""
    made: list[tuple[str, Connection]] = []

    def make(role: str) -> Connection:
        name = f"stolen_{role}_{os.getpid()}_{len(made)}"
        q.rows(f"create role {name} login password 'x' in role {role}")
        made.append((name, psycopg.connect(q.database.dsn, user=name, password="x", autocommit=True)))
        return made[-1][1]

    yield make
    for name, conn in made:
        conn.close()
        q.rows(f"drop role {name}")


def denied(conn: Connection, statement: str) -> bool:
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(as_sql(statement))
    except (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.WrongObjectType,
        psycopg.errors.ObjectNotInPrerequisiteState,
    ):
        return True  # the latter two: a view can't be truncated or written
    return False


@pytest.mark.parametrize("role", ROLES)
def test_a_stolen_login_reads_and_changes_no_table(q: Queue, login: Callable[[str], Connection], role: str) -> None:
    conn = login(role)
    q.enqueue()
    relations = [row["name"] for row in q.rows(RELATIONS)]
    readable = {name for name in relations if not denied(conn, f"select * from {name}")}
    assert readable == (REDACTED if role == "reproq_reader" else set())
    for name in relations:
        for statement in (f"delete from {name}", f"truncate {name}", f"insert into {name} default values"):
            assert denied(conn, statement), statement
        assert denied(conn, f"lock table {name} in access exclusive mode"), name
    for row in q.rows(SEQUENCES):
        assert denied(conn, f"select nextval('{row['name']}')"), row["name"]
        assert denied(conn, f"select setval('{row['name']}', 1)"), row["name"]
    assert q.count() == 1


@pytest.mark.parametrize("role", ROLES)
def test_a_stolen_login_becomes_nobody_else_and_creates_nothing_of_ours(
    login: Callable[[str], Connection], role: str
) -> None:
    conn = login(role)
    for statement in (
        "set role reproq_owner",
        "set session authorization postgres",
        "create function queues.mine() returns int language sql as 'select 1'",
        "create table internal.mine (id int)",
        "create schema mine",
        "create role mine",
        "alter function queues.finish owner to session_user",
        "create or replace function queues.task_status(id bigint) returns text language sql as 'select null::text'",
        "drop function queues.cancel",
        "create trigger t before insert on queues.task_runs for each row"
        " execute function suppress_redundant_updates_trigger()",
        "grant reproq_owner to session_user",
        "set session_replication_role = replica",
        "comment on schema queues is 'mine'",
        "copy queues.task_runs to program 'cat'",
        "select pg_read_file('/etc/passwd')",
        "insert into internal.callable_schema values ('pg_catalog')",
        "select queues.enqueue_system('t')" if role != "reproq_process_author" else "select queues.enqueue('t')",
    ):
        assert denied(conn, statement), statement


def leave_canaries(q: Queue) -> None:
    """One of everything that a task may quote."""
    failed = q.claimed("shop.pay", payload={"card": CANARY}, idempotency_key=CANARY, max_attempts=1, trace=CANARY)
    q.fail(failed, error=CANARY, error_detail={"traceback": CANARY, "output": CANARY})
    done = q.claimed("shop.pay", payload={"card": CANARY}, limit_key=CANARY)
    q.succeed(done, payload=CANARY)
    cancelled = q.enqueue("shop.pay", payload={"card": CANARY})
    q.cancel(cancelled, CANARY)
    deleted = q.enqueue("shop.pay")
    q.soft_delete(deleted, CANARY)
    q.rows("insert into queues.error (source, message, detail) values ('test', %s, %s)", CANARY, Jsonb({"x": CANARY}))


def test_what_the_reader_sees_holds_no_payload_no_result_and_no_error_text(
    q: Queue, login: Callable[[str], Connection]
) -> None:
    leave_canaries(q)
    everything = q.rows("select t::text from queues.task_runs t union all select e::text from queues.task_events e")
    assert CANARY in str(everything)
    reader = login("reproq_reader")
    for view in sorted(REDACTED):
        assert CANARY not in str(q.rows(f"select v::text from {view} v", by=reader)), view
    (row,) = q.rows("select * from queues.dead_letter_redacted", by=reader)
    assert (row["task_type"], row["failure_kind"], row["attempt_count"]) == ("shop.pay", "raised", 1)


def test_the_reader_learns_no_fence(q: Queue, login: Callable[[str], Connection]) -> None:
    worker = "host/17/9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"
    q.claimed("t", worker=worker)
    q.call("register_worker", worker_id=worker, hostname="host", pid=17, version="1", queues=None, prefixes=None,
           pool_size=1, types=Jsonb({}))  # fmt: skip
    reader = login("reproq_reader")
    assert q.rows("select worker from queues.tasks_redacted", by=reader) == [{"worker": "host/17"}]
    assert q.rows("select worker from queues.workers_redacted", by=reader) == [{"worker": "host/17"}]
    seen = [q.rows(f"select v::text from {view} v", by=reader) for view in sorted(REDACTED)]
    assert "9b1deb4d" not in str(seen)


def test_the_reader_sees_how_each_queue_stands(q: Queue, login: Callable[[str], Connection]) -> None:
    q.rows("delete from queues.queue_settings")
    q.rows("insert into queues.queue_settings (queue_name, paused) values ('empty', true)")
    q.fail(q.claimed("t", queue_name="mail", max_attempts=1))
    q.claimed("t", queue_name="mail")
    for delay in (0, 0, 3600):
        q.rows("select queues.enqueue('t', queue_name => 'mail', scheduled_at => now() + %s * interval '1 s')", delay)
    rows = {row["queue_name"]: row for row in q.rows("select * from queues.queues_redacted", by=login("reproq_reader"))}
    q.rows("delete from queues.queue_settings")
    mail = rows["mail"]
    assert [mail[name] for name in ("ready", "later", "waiting", "running", "failed")] == [2, 1, 0, 1, 1]
    assert (mail["paused"], mail["oldest_ready"] is not None) == (False, True)
    assert (rows["empty"]["paused"], rows["empty"]["ready"]) == (True, 0)


def test_an_app_enqueues_and_cancels_its_own_and_is_told_nothing_of_others(
    q: Queue, login: Callable[[str], Connection]
) -> None:
    mine, theirs = login("reproq_app"), q.database.connect("app")
    task_id = q.value("select queues.enqueue('t', '{\"x\": 1}', idempotency_key => 'k')", by=theirs)
    assert q.rows("select * from queues.task_status(%s)", task_id, by=mine) == []
    assert q.value("select queues.cancel(%s)", task_id, by=mine) == "unknown"
    assert q.value("select queues.cancel(%s)", task_id + 1000, by=mine) == "unknown"  # as one that never was
    assert q.value("select queues.cancel(%s)", q.value("select queues.enqueue('t')", by=mine), by=mine) == "cancelled"
    assert q.task(task_id)["status"] == "PENDING"


@pytest.mark.parametrize("role", ["worker_service_user", "reproq_app", "reproq_reader"])
def test_a_right_that_a_role_lacks_is_told_by_its_sqlstate(login: Callable[[str], Connection], role: str) -> None:
    conn = login(role)
    assert refused(lambda: conn.execute("select queues.replay(1)"))[0] == "42501"


def test_a_schedule_that_two_logins_make_at_once_stays_the_first_ones(
    q: Queue, login: Callable[[str], Connection]
) -> None:
    first, second = login("reproq_app"), login("reproq_app")
    first.autocommit = False
    first.execute("select queues.put_schedule('both', 'theirs', every => '1 day')")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(refused, lambda: second.execute("select queues.put_schedule('both', 'x', every => '1 s')"))
        wait_until(lambda: q.waits_for_a_lock(second))
        first.commit()
        assert late.result()[0] == "RQ004"
    assert q.rows("select task_type from queues.schedules where schedule_name = 'both'") == [{"task_type": "theirs"}]
    q.rows("select queues.drop_schedule('both')")
