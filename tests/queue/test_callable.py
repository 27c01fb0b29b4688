"""A payload can't name code that its role may not run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection
from reproq.db.embedded import EmbeddedServer

from . import shop
from .conftest import Queue, refused

HOSTILE = [
    None, "", ".", "shop", "shop.", ".answer", "shop.answer.answer", "shop..answer", "shop.answer()",
    "shop.answer(jsonb)",
    "shop.answer ", " shop.answer", "shop.answer\n", "shop . answer", '"shop".answer', '"shop"."answer"', "SHOP.ANSWER",
    "shop.answer; drop table shop.log", "shop.answer--", "shop.answer/**/", "shop.answer'", "shop.answer$1",
    "shop.ans%wer",
    "shop.missing", "shop.secret", "shop.two", "shop.none", "shop.of_text", "shop.to_text", "shop.rows", "shop.many",
    "shop.procedure", "shop.aggregate", "pg_catalog.jsonb_pretty", "pg_catalog.pg_sleep",
    "information_schema._pg_truetypid",
    "queues.finish", "queues.enqueue", "internal.run_function", "internal.resolve_function", "public.plain",
    "pg_temp.plain",
    "answer", "comms.anything", "x" * 64 + ".answer", "shop." + "x" * 64, "x" * 100_000, "é.answer",
]  # fmt: skip
LOGIN = f"raised_{os.getpid()}"


@pytest.fixture(scope="module")
def installed(server: EmbeddedServer, shared_databases: Callable[[EmbeddedServer], Queue]) -> Iterator[None]:
    with shop.installed(shared_databases(server)):
        yield


@pytest.fixture
def worker(q: Queue, installed: None) -> Connection:
    return q.database.connect("worker")


@pytest.fixture
def app(q: Queue, installed: None) -> Connection:
    return q.database.connect("app")


def call(q: Queue, name: object, by: Connection) -> Any:
    return q.value("select internal.run_function(%s, %s)", name, Jsonb({"answer": {"n": 1}}), by=by)


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: str(name)[:30])
def test_hostile_names_are_all_answered_alike(q: Queue, worker: Connection, name: str | None) -> None:
    usual = refused(lambda: call(q, "shop.no_such", worker))
    assert usual[0] == "RQ005"
    code, message, hint = refused(lambda: call(q, name, worker))
    assert (code, hint) == (usual[0], usual[2])
    words = message.split("'")
    assert words[0] + words[-1] == "no function " + " that this task may call"
    assert len(message) < 200
    assert q.value("select internal.resolve_function(%s)", name, by=worker) is None


def test_a_granted_function_of_an_allowed_schema_is_called(q: Queue, worker: Connection) -> None:
    assert call(q, "shop.answer", worker) == {"n": 1}


def test_without_its_schemas_leave_no_function_is_called(q: Queue, worker: Connection) -> None:
    q.rows("delete from internal.callable_schema where schema_name = 'shop'")
    assert refused(lambda: call(q, "shop.answer", worker))[0] == "RQ005"
    q.rows("select internal.allow_schema('shop')")


def test_without_usage_of_its_schema_no_function_is_called(q: Queue, worker: Connection) -> None:
    q.rows("revoke usage on schema shop from worker_service_user")
    assert refused(lambda: call(q, "shop.answer", worker))[0] == "RQ005"
    q.rows("grant usage on schema shop to worker_service_user")


def test_a_superuser_that_lowered_itself_is_lowered(q: Queue, installed: None) -> None:
    admin = q.database.connect()
    assert call(q, "shop.secret", admin) == {"success": True}
    admin.execute("set role worker_service_user")
    assert call(q, "shop.answer", admin) == {"n": 1}
    assert refused(lambda: call(q, "shop.secret", admin))[0] == "RQ005"


@pytest.fixture
def raised(q: Queue, installed: None) -> Iterator[Connection]:
    """A login that inherits nothing and has to raise itself by SET ROLE."""
    q.rows(f"create role {LOGIN} login noinherit in role worker_service_user")
    conn = q.database.connect()
    conn.execute(f"set session authorization {LOGIN}".encode())
    yield conn
    conn.close()
    q.rows(f"drop role {LOGIN}")


def test_a_login_that_inherits_nothing_may_call_what_the_role_it_took_may(q: Queue, raised: Connection) -> None:
    raised.execute("set role worker_service_user")
    assert call(q, "shop.answer", raised) == {"n": 1}
    assert refused(lambda: call(q, "shop.secret", raised))[0] == "RQ005"


def nest(q: Queue) -> None:
    """A definer function of a superuser, as a careless supervisor might be: in it run_function runs as that one."""
    q.rows("""create or replace function shop.nested(name text) returns jsonb language plpgsql security definer as
              $$ begin return internal.run_function(name, '{"answer": {"n": 1}}'); end $$""")
    q.rows("grant execute on function shop.nested to public")


def test_nested_in_a_definer_function_the_callers_own_grants_decide(
    q: Queue, worker: Connection, app: Connection
) -> None:
    nest(q)
    assert q.value("select shop.nested('shop.answer')", by=worker) == {"n": 1}
    for name, by in (("shop.secret", worker), ("shop.answer", app)):
        assert refused(lambda name=name, by=by: q.value("select shop.nested(%s)", name, by=by))[0] == "RQ005"  # type: ignore[misc]


def test_nested_under_a_login_that_inherits_nothing_the_role_it_took_decides(q: Queue, raised: Connection) -> None:
    nest(q)
    q.rows(f"grant usage on schema shop to {LOGIN}")
    try:
        assert refused(lambda: q.value("select shop.nested('shop.answer')", by=raised))[0] == "RQ005"
        raised.execute("set role worker_service_user")
        assert q.value("select shop.nested('shop.answer')", by=raised) == {"n": 1}
        assert refused(lambda: q.value("select shop.nested('shop.secret')", by=raised))[0] == "RQ005"
    finally:
        raised.execute("reset role")
        q.rows(f"revoke usage on schema shop from {LOGIN}")


NAMING: list[tuple[str, dict[str, Any]]] = [
    ("db_function", {"db_function": "shop.answer"}),
    ("email", {"success_handler": "shop.answer"}),
    ("any.type", {"success_handler": "shop.answer"}),
    ("any.type", {"before_handler": "shop.answer", "x": 1}),
    ("any.type", {"own_handler": "shop.answer"}),
]
NEVER: list[tuple[str, str, dict[str, Any]]] = [
    ("RQ002", "db_function", {}),
    ("RQ002", "db_function", {"db_function": None}),
    ("RQ004", "db_function", {"db_function": 5}),
    ("RQ004", "db_function", {"db_function": ["shop.answer"]}),
    ("RQ004", "db_function", {"db_function": "shop.missing"}),
    ("RQ004", "db_function", {"db_function": "queues.finish"}),
    ("RQ004", "email", {"to": "a"}),
    ("RQ004", "sms", {}),
    ("RQ004", "t", {"error_handler": {"name": "shop.answer"}}),
]
WAYS = ["enqueue", "enqueue_once", "enqueue_many"]


def enqueue(q: Queue, way: str, task_type: str, payload: dict[str, Any], by: Connection) -> None:
    documents: dict[str, object] = (
        {"payloads": [Jsonb({"db_function": "shop.who"}), Jsonb(payload)]}
        if way == "enqueue_many"
        else {"payload": Jsonb(payload)}
    )
    q.call(way, by, task_type=task_type, **documents)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("task_type", "payload"), NAMING, ids=str)
def test_who_names_a_function_must_be_allowed_to_run_it(
    q: Queue, app: Connection, way: str, task_type: str, payload: dict[str, Any]
) -> None:
    q.rows("grant execute on function shop.who(jsonb) to reproq_app")
    code, message, hint = refused(lambda: enqueue(q, way, task_type, payload, app))
    assert (code, bool(hint), q.count()) == ("RQ004", True, 0)
    if not (task_type == "email" and way == "enqueue_many"):
        assert "reproq_app_login may not run" in message
        q.rows("grant execute on function shop.answer(jsonb) to reproq_app")
        enqueue(q, way, task_type, payload, app)
        assert q.count() >= 1
    q.rows("revoke execute on function shop.answer(jsonb), shop.who(jsonb) from reproq_app")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("code", "task_type", "payload"), NEVER, ids=str)
def test_what_names_nothing_that_can_be_run_is_refused(
    q: Queue, way: str, code: str, task_type: str, payload: dict[str, Any]
) -> None:
    admin = q.database.connect()
    found, _, hint = refused(lambda: enqueue(q, way, task_type, payload, admin))
    assert (found in (code, "RQ004"), bool(hint), q.count()) == (True, True, 0)


def test_a_handler_that_is_null_or_deeper_down_names_nothing(q: Queue, app: Connection) -> None:
    enqueue(q, "enqueue", "t", {"success_handler": None, "data": {"success_handler": "x"}}, app)
    enqueue(q, "enqueue", "t", {"text": 'a_handler"', "db_function": "not.mine"}, app)
    assert q.count() == 2


@pytest.mark.parametrize(
    ("code", "schema"),
    [
        ("RQ004", "queues"), ("RQ004", "internal"), ("RQ004", "public"), ("RQ004", "pg_catalog"), ("RQ004",
        "information_schema"),
        ("RQ005", "missing"), ("RQ005", ""), ("RQ005", None), ("RQ005", 'shop"'), ("RQ005", "shop; drop schema shop"),
    ],
)  # fmt: skip
def test_the_engines_and_the_servers_schemas_are_never_callable(
    q: Queue, installed: None, code: str, schema: str | None
) -> None:
    found, _, hint = refused(lambda: q.value("select internal.allow_schema(%s)", schema))
    assert (found, bool(hint)) == (code, True)


def test_only_who_may_install_processes_may_allow_a_schema(q: Queue, worker: Connection, app: Connection) -> None:
    for conn in (worker, app):
        assert refused(lambda conn=conn: q.rows("select internal.allow_schema('shop')", by=conn))[0] == "42501"  # type: ignore[misc]
        assert refused(lambda conn=conn: q.rows("select queues.enqueue_system('t')", by=conn))[0] == "42501"  # type: ignore[misc]
