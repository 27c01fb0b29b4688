"""Every function of ours against a caller who prepared its session: types, views, functions, operators, settings.

The attacker may do what the user's application may leave everybody: create temporary objects, and a schema of its own.
For these tests it may call EVERY function, and each runs as the owner: what isn't granted today may be tomorrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from reproq.db.connect import Connection, as_sql

from .conftest import Queue
from .test_privileges import steps

OURS = "n.nspname in ('queues', 'internal', 'comms')"
FUNCTIONS = f"""
    select p.oid::regprocedure::text as signature, format('%I.%I', n.nspname, p.proname) as name, p.prosrc as source,
           p.prorettype = 'trigger'::regtype as is_trigger, p.prosecdef as definer,
           array(select format('%s %s', coalesce((p.proargnames)[a.place], 'x'), a.type::regtype)
                 from unnest(p.proargtypes) with ordinality as a(type, place) order by a.place) as arguments
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace where {OURS} and p.prokind = 'f' order by 1"""
STEAL = """
    create schema trap;
    create function trap.steal() returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $$
    begin
        if current_user <> session_user then raise warning 'stolen as %', current_user; end if;
        return true;
    end $$"""
SAMPLES = {
    "worker_id": "'w'", "function_name": "'shop.answer'", "event": "'created'", "task_type": "'t'",
    "queue_name": "'default'",
    "lease": "'30 seconds'", "outcomes": "'[{\"id\": 1, \"claim_no\": 1, \"success\": true}]'", "priority": "0",
    "scheduled_at": "pg_catalog.now()", "unique_among": "null", "timeout": "'5 seconds'",
    "after": "null", "max_attempts": "2",
    "idempotency_key": "'k'", "idempotency_keys": "null", "schema_name": "'queues'", "kind": "'raised'",
    "payloads": "array['{\"a\": [1, 2.5]}', '{}']::jsonb[]", "hints": "null", "pools": "null", "queues": "null",
    "prefixes": "array['t']", "max_tasks": "1", "types": "'{\"t\": {\"timeout\": 5, \"max_attempts\": 2}}'",
}  # fmt: skip
BY_TYPE = {
    "bigint": "1", "integer": "1", "text": "'t'", "jsonb": "'{\"a\": [1, 2.5], \"db_function\": \"shop.answer\"}'",
    "boolean": "true", "interval": "'1 minute'", "timestamp with time zone": "pg_catalog.now()",
    "double precision": "1.5",
    "bigint[]": "'{1,2}'", "integer[]": "'{1}'", "text[]": "'{t}'", "jsonb[]": "array['{}']::jsonb[]",
    "boolean[]": "'{true}'",
    "numeric": "1", "name": "'t'",
}  # fmt: skip


def sample(argument: str) -> str:
    name, _, type_ = argument.partition(" ")
    value = SAMPLES.get(name, BY_TYPE.get(type_, "null"))
    return f"({value})::{type_}"


def call_of(function: dict[str, Any]) -> str:
    return f"select {function['name']}({', '.join(map(sample, function['arguments']))})"


class Attacker:
    """One session that is the attacker's for each call, and the administrator's between them."""

    def __init__(self, q: Queue) -> None:
        self.q = q
        self.conn: Connection = q.database.connect()
        self.stolen: list[str] = []
        self.conn.add_notice_handler(self._heard)
        self.functions = [row for row in q.rows(FUNCTIONS) if not row["is_trigger"]]
        self._let_it_call_everything()
        self._become()
        self._set_traps()

    def _heard(self, notice: psycopg.errors.Diagnostic) -> None:
        if "stolen as" in (notice.message_primary or ""):
            self.stolen.append(str(notice.message_primary))

    def _let_it_call_everything(self) -> None:
        self.q.rows("grant create on database " + self.q.database.name + " to reproq_app_login")
        for row in self.q.rows(f"select n.nspname as name from pg_namespace n where {OURS}"):
            self.q.rows(f"grant usage on schema {row['name']} to reproq_app_login")
            self.q.rows(f"grant execute on all functions in schema {row['name']} to reproq_app_login")
        for function in self.functions:
            self.q.rows(f"alter function {function['signature']} security definer")

    def _become(self) -> None:
        self.conn.execute("set session authorization reproq_app_login")

    def _set_traps(self) -> None:
        self.conn.execute(as_sql(STEAL))
        for statement in (*self._types(), *self._relations(), *self._functions(), *self._operators()):
            self.conn.execute(as_sql(statement))
        # A function that is deceived may not come to an end: what it lets out by then counts.
        self.conn.execute("set statement_timeout = '3s'")
        self.conn.execute("grant usage on schema trap to public; set search_path = trap, pg_temp, pg_catalog")

    def _types(self) -> Iterator[str]:
        rows = self.q.rows(
            "select typname as name from pg_type where typnamespace = 'pg_catalog'::regnamespace and typtype = 'b'"
            " and typcategory <> 'A' and typname !~ '^(pg_|aclitem)' order by 1"
        )
        for row in rows:
            yield f'create domain pg_temp."{row["name"]}" as pg_catalog."{row["name"]}" check (trap.steal())'

    def _relations(self) -> Iterator[str]:
        rows = self.q.rows(
            "select distinct relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            f" where {OURS} and relkind in ('r', 'v') or c.oid::regclass::text in ('pg_proc', 'pg_namespace',"
            " 'pg_type', 'pg_roles', 'pg_class', 'pg_settings')"
        )
        for row in rows:
            yield (
                f'create temp view "{row["name"]}" as select trap.steal() as paused, 1 as id, 2 as max_payload_bytes,'
                " 3 as max_depth, null::pg_catalog.text as worker_id, null::pg_catalog.text as task_type"
            )

    def _functions(self) -> Iterator[str]:
        """A twin of each of the server's functions that a body names."""
        words = {
            word for function in self.functions for word in re.findall(r"(?<![.\w])([a-z_]+) *\(", function["source"])
        }
        rows = self.q.rows(
            "select p.proname as name, pg_get_function_identity_arguments(p.oid) as arguments,"
            " format_type(p.prorettype, null) as returns from pg_proc p"
            " where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and not p.proretset"
            " and p.provariadic = 0 and p.proname = any(%s) and not exists (select from pg_type t where t.typtype = 'p'"
            " and (t.oid = p.prorettype or t.oid = any(p.proargtypes)))",
            sorted(words),
        )
        for row in rows:
            body = "begin perform trap.steal(); return null; end"
            yield (
                f'create function trap."{row["name"]}"({row["arguments"]}) returns {row["returns"]}'
                f" language plpgsql as '{body}'"
            )

    def _operators(self) -> Iterator[str]:
        for number, type_ in enumerate(("text", "int8", "int4", "timestamptz", "jsonb", "bool", "name")):
            type_ = f"pg_catalog.{type_}"
            yield (
                f"create function trap.equal{number}({type_}, {type_}) returns pg_catalog.bool language sql as"
                " 'select trap.steal()'"
            )
            for operator in ("=", "<>", "<", "<=", ">", ">="):
                sides = f"leftarg = {type_}, rightarg = {type_}"
                yield f"create operator trap.{operator} ({sides}, function = trap.equal{number})"

    def call(self, function: dict[str, Any], *before: str) -> list[str]:
        return self.run(call_of(function), *before)

    def run(self, statements: str, *before: str) -> list[str]:
        """What was stolen while it ran, with these changes made by an administrator first. Leaves nothing behind."""
        self.stolen.clear()
        self.conn.execute("begin")
        for statement in before:
            self.conn.execute("reset session authorization; set local search_path = pg_catalog, pg_temp")
            self.conn.execute(as_sql(statement))
            self._become()
        self.conn.execute("set local search_path = trap, pg_temp, pg_catalog")
        try:
            self.conn.execute(as_sql(statements))
        except psycopg.Error as exc:
            if "stolen as" in str(exc):
                self.stolen.append(str(exc))
        self.conn.execute("rollback")
        return list(self.stolen)


@pytest.fixture
def attacker(own: Queue) -> Attacker:
    own.enqueue()
    return Attacker(own)


def test_no_function_runs_anything_of_a_session_full_of_traps(attacker: Attacker) -> None:
    assert attacker.q.value("select has_database_privilege('reproq_app_login', current_database(), 'TEMP')")
    assert len(attacker.functions) > 40
    stolen = {function["signature"]: attacker.call(function) for function in attacker.functions}
    assert {signature: found for signature, found in stolen.items() if found} == {}


@pytest.mark.parametrize("path", ["''", "pg_catalog", "default"])
def test_the_traps_are_real_for_functions_that_are_pinned_less_well(attacker: Attacker, path: str) -> None:
    """Else the test above would prove nothing. Without pg_temp at its end a path begins with it."""
    bitten = []
    for function in attacker.functions:
        pin = f"alter function {function['signature']} " + (
            "reset search_path" if path == "default" else f"set search_path = {path}"
        )
        bitten += [function["name"]] if attacker.call(function, pin) else []
    assert len(bitten) >= (20 if path == "default" else 3), bitten


def test_every_definer_function_was_among_the_attacked(attacker: Attacker, q: Queue) -> None:
    definers = {row["signature"] for row in q.rows(FUNCTIONS) if row["definer"]}
    assert definers
    assert definers <= {function["signature"] for function in attacker.functions} | {"internal.admit_at_commit()"}


def test_what_runs_at_a_commit_runs_nothing_of_a_session_full_of_traps(attacker: Attacker) -> None:
    keyed = "select queues.enqueue('t', limit_key => 'k'); set constraints all immediate"
    badly_pinned = (
        "create or replace function internal.admit_at_commit() returns trigger language plpgsql security definer"
        " as 'begin perform 1::text; return null; end'"
    )
    assert attacker.run(keyed) == []
    assert attacker.run(keyed, badly_pinned)


# Whoever sets these is refused, or disconnects himself: nothing is answered wrongly.
CLOSED = {"default_transaction_read_only", "exit_on_error"}
SETTABLE = """
    select name, vartype, setting, enumvals from pg_settings
    where context = 'user' and vartype in ('bool', 'enum') and name !~ '^(debug|transaction)_' order by name"""


def other_values(row: dict[str, Any]) -> list[str]:
    if row["vartype"] == "bool":
        return ["off" if row["setting"] == "on" else "on"]
    return [value for value in row["enumvals"] if value != row["setting"]]


def steps_with(q: Queue, settings: list[tuple[str, str]]) -> dict[str, Any]:
    q.rows("delete from queues.task_runs")
    app, worker = q.database.connect("app"), q.database.connect("worker")
    try:
        for conn in (app, worker):
            for name, value in settings:
                conn.execute("select set_config(%s, %s, false)", [name, value])
        return steps(q, app, worker)
    finally:
        app.close()
        worker.close()


def test_no_switch_that_a_caller_may_flip_changes_an_answer(q: Queue) -> None:
    """All of them, as this server names them: ten at a time, and one by one where ten changed something."""
    flips = [
        (row["name"], value) for row in q.rows(SETTABLE) for value in other_values(row) if row["name"] not in CLOSED
    ]
    assert len(flips) > 60
    expected = steps_with(q, [])
    groups = [flips[n::12] for n in range(12)]
    suspects = [flip for group in groups if steps_with(q, group) != expected for flip in group]
    assert [flip for flip in suspects if steps_with(q, [flip]) != expected] == []
    assert suspects == []


@pytest.mark.parametrize("setting", ["standard_conforming_strings", "transform_null_equals", "backslash_quote"])
def test_a_setting_of_the_parser_lets_no_named_function_through(own: Queue, setting: str) -> None:
    """The bodies are parsed in the caller's session, literals with a backslash among them."""
    app = own.database.connect("app")
    app.execute(f"set {setting} = {'on' if setting != 'standard_conforming_strings' else 'off'}".encode())
    for payload in ('{"success_handler": "queues.finish"}', '{"db_function": "queues.finish"}'):
        with pytest.raises(psycopg.Error, match="names a function"):
            app.execute("select queues.enqueue('db_function', %s::jsonb || '{\"db_function\": \"x.y\"}')", [payload])
        if "handler" in payload:
            with pytest.raises(psycopg.Error, match="names a function"):
                app.execute("select queues.enqueue_many('t', array[%s::jsonb])", [payload])


@pytest.mark.parametrize("value", ["on", "off"])
def test_a_literal_means_the_same_however_the_session_reads_backslashes(own: Queue, value: str) -> None:
    app = own.database.connect("app")
    app.execute(f"set standard_conforming_strings = {value}".encode())
    for key in ("xhandler", "a_handler_", "handler"):
        app.execute("select queues.enqueue('t', jsonb_build_object(%s::text, 'no.such'))", [key])
        app.execute("select queues.enqueue_many('t', array[jsonb_build_object(%s::text, 'no.such')])", [key])
    literals = [row for row in own.rows(FUNCTIONS) if "\\" in re.sub(r"--[^\n]*", "", row["source"])]
    assert [row["name"] for row in literals] == [], "a backslash in a literal is read by the caller's session"
