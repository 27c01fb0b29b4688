"""`reproq doctor --security`: every rule holds on a fresh installation, and finds what it is for on a weakened one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import sql

from reproq.db.connect import Connection, as_sql, connect
from reproq.db.doctor import BASICS, Severity, Verdict, examine, look_around
from reproq.db.embedded import EmbeddedServer
from reproq.db.security import RULES

NAMES = [rule.name for rule in RULES]
# An allowed schema as an author of processes would leave it: everything in it is as it should be.
SHOP = """
create role shop_owner nologin in role reproq_process_author;
alter default privileges for role shop_owner revoke execute on functions from public;
create schema shop authorization shop_owner;
grant usage on schema shop to worker_service_user;
set local role shop_owner;
create function shop.pay(payload jsonb) returns jsonb language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$ begin return payload; end $$;
create function shop.look(payload jsonb) returns jsonb language sql as 'select payload';
create function shop.tidy(payload jsonb) returns jsonb language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$ begin execute 'close all'; return payload; end $$;
grant execute on all functions in schema shop to worker_service_user;
select internal.allow_schema('shop');
reset role"""
TRIGGER = "create function public.spy() returns trigger language plpgsql as 'begin return new; end'"
SPY = "create function public.spy() returns text language sql as 'select session_user::text'"


def _shop(body: str) -> str:
    return (
        "create function shop.x(payload jsonb) returns jsonb language plpgsql security definer"
        f" set search_path = pg_catalog, pg_temp as $f$ {body} $f$"
    )


# rule → the ways to weaken a database that it has to notice, each with a word of what it then says
WEAKENINGS: dict[str, list[tuple[str, str]]] = {
    "public.schemas": [("grant usage on schema queues to public", "USAGE on schema queues")],
    "public.functions": [
        ("grant execute on function queues.replay to public", "queues.replay(bigint,integer)"),
        ("create function internal.fresh() returns int language sql as 'select 1'", "internal.fresh()"),
    ],
    "public.relations": [
        ("grant select on queues.task_runs to public", "SELECT on queues.task_runs"),
        ("grant select (id) on queues.task_runs to public", "column id"),
        ("grant usage on sequence queues.task_runs_id_seq to public", "queues.task_runs_id_seq"),
    ],
    "public.types": [("grant usage on type queues.task_type to public", "queues.task_type")],
    "public.defaults": [
        ("alter default privileges for role reproq_owner grant select on tables to reproq_reader",
         "also reproq_reader's"),
        ("alter default privileges for role reproq_owner grant select on tables to public", "also everybody's"),
        ("alter default privileges for role reproq_owner in schema queues grant execute on functions to"
         " worker_service_user", "in schema queues"),
        ("alter default privileges for role reproq_owner grant usage, create on schemas to public", "create, usage"),
        ("alter default privileges for role reproq_owner grant execute on functions to public", "execute on functions"),
        ("alter default privileges for role reproq_owner grant usage on types to public", "usage on types"),
        ("alter default privileges for role reproq_owner in schema queues grant select on tables to public",
         "schema queues"),
    ],
    "roles.owner": [],  # its own test below: it needs an installation without roles
    "roles.held": [
        ("grant execute on function queues.replay to worker_service_user", "worker_service_user has EXECUTE"),
        ("revoke execute on function queues.claim from worker_service_user", "worker_service_user lacks EXECUTE"),
        ("grant execute on function queues.claim to worker_service_user with grant option", "may hand on EXECUTE"),
        ("grant create on schema queues to reproq_app", "reproq_app has CREATE on schema queues"),
        ("grant select (id) on queues.workers to reproq_dispatcher", "queues.workers(id)"),
        ("create role own login; grant select on queues.task_runs to own", "own has SELECT"),
    ],
    "roles.relations": [
        ("grant insert on queues.task_events to worker_service_user", "may insert queues.task_events"),
        ("grant usage on sequence queues.task_runs_id_seq to worker_service_user", "may usage queues.task_runs_id_seq"),
        ("grant select on queues.task_runs to reproq_reader", "reproq_reader may select queues.task_runs"),
        ("grant update (status) on queues.task_runs to public", "worker_service_user may update"),
        ("grant pg_read_all_data to reproq_app", "reproq_app may select"),
    ],
    "roles.plain": [
        ("alter role worker_service_user superuser", "is a superuser"),
        ("alter role reproq_owner login", "can log in"),
        ("alter role reproq_app createrole", "may create roles"),
        ("alter role reproq_reader bypassrls", "bypasses row security"),
    ],
    "roles.members": [("grant reproq_owner to worker_service_user", "worker_service_user is a member of reproq_owner")],
    "roles.owned": [
        ("alter function queues.cancel owner to postgres", "queues.cancel"),
        ("alter table queues.error owner to postgres", "queues.error belongs to postgres"),
        ("alter type queues.task_status owner to postgres", "queues.task_status"),
        ("alter schema internal owner to postgres", "internal belongs to postgres"),
    ],
    "logins.might": [
        ("alter role reproq_worker superuser", "reproq_worker is a superuser"),
        ("create role between in role worker_service_user; create role far login createrole in role between",
         "far may create roles"),
    ],
    "logins.owner": [
        ("grant reproq_owner to reproq_worker", "reproq_worker may act as reproq_owner"),
        ("create role between in role reproq_owner; alter role reproq_worker noinherit; grant between to reproq_worker",
         "reproq_worker may act as reproq_owner"),
        ("alter database reproq owner to reproq_app_login", "reproq_app_login owns this database"),
    ],
    "logins.server_roles": [
        ("create role between in role pg_read_all_data; grant between to reproq_worker", "pg_read_all_data"),
        ("grant pg_checkpoint to reproq_app_login", "pg_checkpoint"),
       ("grant pg_execute_server_program to reproq_worker", "pg_execute_server_program")],
    "logins.relations": [
        ("create role between; grant select on queues.task_runs to between; grant between to reproq_app_login",
         "reproq_app_login may read or change queues.task_runs"),
        ("grant select on queues.task_runs to reproq_worker", "reproq_worker may read or change queues.task_runs"),
        ("grant pg_write_all_data to reproq_worker", "reproq_worker may read or change"),
        ("grant update (payload_json) on queues.task_runs to reproq_app_login", "reproq_app_login may read or change"),
    ],
    "logins.parameters": [
        ("create role middle; grant set on parameter session_replication_role to middle; grant middle to"
         " reproq_worker", "middle may set session_replication_role"),
        ("grant set on parameter session_replication_role to worker_service_user", "session_replication_role"),
        ("grant set on parameter log_statement to public", "everybody may set log_statement"),
    ],
    "definers.search_path": [
        ('alter function shop.pay set search_path = pg_catalog, "$user", pg_temp', "looks into $user"),
        ("alter function queues.claim reset search_path", "finds its names by the caller's search_path"),
        ("alter function queues.finish set search_path = ''", "queues.finish"),
        ("alter function internal.check_payload set search_path = pg_catalog, public, pg_temp",
         "internal.check_payload"),
        ("alter function shop.pay set search_path = pg_catalog, shop", "temporary schema first"),
        ("alter function shop.pay reset search_path", "shop.pay(jsonb) finds its names"),
        ("grant create on schema public to public; alter function shop.pay set search_path = pg_catalog,"
         " public, pg_temp",
         "looks into public, where its callers may create"),
    ],
    "definers.owner": [
        ("create role boss createrole; alter function shop.pay owner to boss", "runs as boss, an administrator"),
        ("alter function shop.pay owner to reproq_owner", "runs as reproq_owner"),
        ("alter function queues.cancel owner to postgres", "runs as postgres"),
        ("alter function shop.pay owner to postgres", "shop.pay(jsonb) runs as postgres, a superuser"),
    ],
    "definers.dynamic_sql": [
        ("create function shop.x(p jsonb) returns xml language sql security definer set search_path = pg_catalog,"
         " pg_temp begin atomic select query_to_xml(p ->> 'q', true, true, ''); end", "shop.x"),
        (_shop(r"declare a text := E'\''; begin execute payload ->> 'q'; return '{}'; end"), "shop.x"),
        (_shop("""declare "it's" text; begin execute payload ->> 'q'; "it's" := '1'; return '{}'; end"""), "shop.x"),
        (_shop("declare a text := '/*'; begin a := '--'; execute payload ->> 'q'; return '{}'; end"), "shop.x"),
        (_shop("begin execute 'close ' || (payload ->> 'q'); return '{}'; end"), "shop.x"),
        (_shop("""begin perform "query_to_xml"(payload ->> 'q', true, true, ''); return '{}'; end"""), "shop.x"),
        ("create function queues.any(text) returns void language plpgsql set search_path = pg_catalog, pg_temp as"
         " 'begin execute $1; end'", "queues.\"any\"(text)"),
        ("create function internal.by_xml(t text) returns xml language sql set search_path = pg_catalog, pg_temp as"
         " 'select query_to_xml(t, true, true, null)'", "internal.by_xml"),
        ("create or replace function shop.pay(payload jsonb) returns jsonb language plpgsql security definer"
         " set search_path = pg_catalog, pg_temp as $$ begin EXECUTE/* */payload ->> 'q'; return '{}'; end $$",
          "shop.pay"),
    ],
    "definers.language": [
        ("create function queues.c(text) returns int language internal strict immutable as 'textlen'",
         "written in internal"),
    ],
    "definers.settings": [("alter function queues.cancel set session_replication_role = replica",
     "session_replication_role")],
    "definers.text": [
        ("create or replace function queues.task_status(id bigint) returns table (task_id bigint, task_type"
         " text, queue_name text,"
         " status text, result_json jsonb, error_json jsonb, last_error text, failure_kind text, attempt_count integer,"
         " max_attempts integer, leased boolean, created_at timestamptz, started_at timestamptz, completed_at"
         " timestamptz)"
         " language plpgsql stable security definer set search_path = pg_catalog, pg_temp as 'begin return; end'",
         "queues.task_status(bigint) isn't as its migration made it"),
        ("create function queues.door(text) returns int language sql as 'select 1'",
         "queues.door(text) isn't Reproq's"),
        ("create or replace function internal.facts_stay() returns trigger language plpgsql set search_path ="
         " pg_catalog, pg_temp as 'begin return coalesce(new, old); end'", "internal.facts_stay() isn't as"),
        ("create or replace function internal.schema_state() returns table (schema_version integer, compatible_from"
         " integer, text_sha256 text, role_prefix text) language sql stable security definer set search_path ="
         " pg_catalog, pg_temp as 'select * from (select v.schema_version, v.compatible_from, v.text_sha256,"
         " v.role_prefix from internal.schema_version v) x'", "internal.schema_state() isn't as"),
        ("alter function internal.run_function(text, jsonb) security definer", "internal.run_function"),
        ("alter function queues.cancel(bigint, text) security invoker", "queues.cancel"),
        ("alter function internal.effective_caller() immutable", "internal.effective_caller"),
        ("alter function internal.effective_caller() leakproof", "internal.effective_caller"),
        ("create function internal.facts_stay(text) returns text language sql as 'select 1::text'",
         "internal.facts_stay(text) isn't Reproq's"),
        ("create procedure queues.p() language sql as 'select 1'", "queues.p() isn't Reproq's"),
        ("create aggregate queues.agg(int) (sfunc = int4pl, stype = int)", "queues.agg(integer) isn't Reproq's"),
    ],
    "relations.triggers": [
        ("drop trigger task_events_append_only on queues.task_events; create trigger task_events_append_only before"
         " update or truncate on queues.task_events for each statement when (false) execute function"
         " internal.refuse_change()", "task_events_append_only on queues.task_events isn't as"),
        ("drop trigger task_events_append_only on queues.task_events; create trigger task_events_append_only before"
         " update or truncate on queues.task_events for each statement execute function internal.touch_updated_at()",
         "task_events_append_only on queues.task_events isn't as"),
        ("drop trigger error_append_only on queues.error", "error_append_only on queues.error is missing"),
        ("alter table queues.task_events disable trigger task_events_append_only", "is disabled"),
        ("drop trigger task_runs_updated_at on queues.task_runs; create trigger task_runs_updated_at before insert on"
         " queues.task_runs for each row execute function internal.touch_updated_at()", "task_runs_updated_at"),
    ],
    "relations.append_only": [
        ("drop trigger task_events_append_only on queues.task_events", "no trigger refuses truncate"),
        ("alter table queues.error enable replica trigger error_append_only", "queues.error can be rewritten"),
        ("create table queues.mail_succeeded (id int)", "queues.mail_succeeded can be rewritten"),
    ],
    "relations.foreign_code": [
        (f"{TRIGGER}; create trigger spy before insert on queues.task_runs for each row execute function public.spy()",
         "runs public.spy"),
        ("create rule r as on insert to queues.error do instead nothing", "rule r"),
    ],
    "relations.redacted": [
        ("grant select on queues.task to reproq_reader", "queues.task shows payload_json of queues.task_runs"),
        ("create view queues.extra as select id, last_error from queues.task_runs; grant select on"
         " queues.extra to reproq_reader",
         "queues.extra shows last_error"),
    ],
    "structure.tables": [
        (f"{SPY}; alter table queues.task_runs alter created_by set default public.spy()", "created_by isn't as"),
        ("alter table queues.task_runs alter created_by set default 'reproq_worker'", "created_by isn't as"),
        ("alter table queues.task_runs alter task_type drop not null", "not null queues.task_runs.task_type"),
        ("alter table queues.task_runs add column spied text", "queues.task_runs.spied isn't Reproq's"),
        ("alter table queues.task_runs enable row level security, force row level security;"
         " create policy p on queues.task_runs using (false)", "row security queues.task_runs"),
        ("create table public.evil() inherits (queues.task_runs)", "evil of queues.task_runs"),
        ("create table queues.more (id int)", "queues.more isn't Reproq's"),
        ("alter table queues.error set unlogged", "queues.error isn't as"),
    ],
    "structure.constraints": [
        ("do $$ declare c name; begin for c in select conname from pg_constraint where conrelid ="
         " 'queues.task_runs'::regclass and contype = 'c' loop execute format('alter table queues.task_runs drop"
         " constraint %I', c); end loop; end $$", "on queues.task_runs is missing"),
        (f"{SPY}; alter table queues.task_runs add constraint c check (public.spy() <> '')", "isn't Reproq's"),
        ("do $$ declare c name; begin for c in select conname from pg_constraint where contypid ="
         " 'queues.task_type'::regtype and contype = 'c' loop execute format('alter domain queues.task_type drop"
         " constraint %I', c); end loop; end $$", "on queues.task_type is missing"),
        ("do $$ declare i regclass; begin for i in select indexrelid from pg_index where indrelid ="
         " 'queues.task_runs'::regclass and indisunique and not indisprimary loop execute format('drop index %s', i);"
         " end loop; end $$", "is missing"),
        ("alter table comms.send_email_task disable trigger all", "foreign keys comms.send_email_task"),
    ],
    "structure.views": [
        ("create or replace view queues.errors_redacted as select id, task_id, claim_no, source, function_name,"
         " created_at, message from queues.error", "queues.errors_redacted isn't as"),
        ("create or replace view queues.errors_redacted as select id, task_id, claim_no, source, function_name,"
         " created_at from queues.error where id > 0", "queues.errors_redacted isn't as"),
        ("alter view queues.tasks_redacted set (security_invoker = true)", "queues.tasks_redacted isn't as"),
        ("create view queues.whole as select t::text from queues.task_runs t", "queues.whole isn't Reproq's"),
    ],
    "structure.types": [
        ("create operator queues.=== (leftarg = int, rightarg = int, function = int4eq)", "isn't Reproq's"),
        ("create function public.c(jsonb) returns text language sql as 'select 1::text'; create cast (jsonb as text)"
         " with function public.c(jsonb) as implicit", "jsonb as text"),
    ],
    "structure.catalog": [
        ("set local allow_system_table_mods = on; create function pg_catalog.spy(queues.task_status) returns bool"
         " language sql as 'select true'", "was added to pg_catalog"),
    ],
    "structure.elsewhere": [
        ("create view public.leak as select * from queues.task_runs; alter view public.leak owner to reproq_owner",
         "public.leak belongs to reproq_owner"),
        ("create materialized view public.leak as select * from queues.task_runs; grant select on public.leak to"
         " public", "materialized view public.leak shows queues.task_runs"),
        ("create function public.leak() returns setof queues.task_runs language sql security definer as"
         " 'select * from queues.task_runs'; alter function public.leak() owner to reproq_owner",
         "public.leak() belongs to reproq_owner"),
        ("alter function shop.look owner to reproq_owner", "shop.look(jsonb) belongs to reproq_owner"),
    ],
    "structure.published": [("create publication p for table queues.task_runs", "publication p sends rows")],
    "logins.admin_option": [
        ("grant worker_service_user to reproq_worker with admin option", "reproq_worker may hand on"),
        ("create role middle; grant reproq_owner to middle with admin option", "middle may hand on reproq_owner"),
    ],
    "logins.one_role": [
        ("grant reproq_app to reproq_worker", "reproq_worker is a worker's and has reproq_app too"),
        ("create role between in role reproq_app; grant between to reproq_worker", "has reproq_app too"),
        ("grant reproq_worker to reproq_app_login", "reproq_app_login may act as login reproq_worker"),
    ],
    "logins.creates": [
        ("grant create on database reproq to reproq_worker", "may create schemas in database reproq"),
        ("grant create on database reproq to public", "may create schemas in database reproq"),
        ("alter schema public owner to reproq_worker", "reproq_worker owns schema public"),
    ],
    "logins.settings": [
        ("alter role reproq_worker set session_replication_role = replica", "session_replication_role = replica"),
        ("alter database reproq set session_replication_role = replica", "session_replication_role = replica"),
        ("alter role all set row_security = off", "row_security = off"),
        ("alter role reproq_worker set search_path = public, pg_catalog", "search_path = public, pg_catalog"),
        ("alter role reproq_worker set session_preload_libraries = 'auto_explain'", "auto_explain"),
    ],
    "schemas.allowed": [
        ("alter table internal.callable_schema drop constraint engine_is_not_callable; insert into"
         " internal.callable_schema values ('queues')", "functions of schema queues, Reproq's own"),
        ("delete from internal.callable_schema where schema_name = 'comms'", "may not name the handlers"),
        ("insert into internal.callable_schema values ('gone')", "gone doesn't exist"),
        ("insert into internal.callable_schema values ('public')", "functions of schema public"),
    ],
    "schemas.public": [("grant execute on function shop.look to public", "shop.look(jsonb)")],
    "schemas.writable": [
        ("grant create on schema shop to worker_service_user", "worker_service_user may create in schema shop"),
        ("grant create on schema queues to reproq_app_login", "reproq_app_login may create in schema queues"),
        ("grant create on schema shop to public", "may create in schema shop"),
        ("alter schema shop owner to reproq_worker", "shop belongs to reproq_worker"),
    ],
    "schemas.defaults": [
        ("alter default privileges for role shop_owner grant execute on functions to public",
         "shop_owner adds to schema shop"),
    ],
    "parameters.on_error": [
        ("alter role reproq_worker set log_parameter_max_length_on_error = 100", "failing statement of reproq_worker"),
        ("alter role reproq_app_login reset log_parameter_max_length_on_error;"
         " alter database reproq set log_parameter_max_length_on_error = -1", "failing statement of reproq_app_login"),
    ],
    "parameters.logged": [
        ("alter role reproq_worker reset log_parameter_max_length; alter role reproq_worker set log_statement = 'all'",
         "statements of reproq_worker"),
        ("alter role reproq_app_login reset log_parameter_max_length;"
         " alter role reproq_app_login set log_min_duration_statement = 0", "statements of reproq_app_login"),
    ],
    "parameters.shared": [("grant create on schema public to public", "everybody may create in schema public")],
}  # fmt: skip
CASES = [(name, *case) for name, cases in WEAKENINGS.items() for case in cases]


@pytest.fixture
def admin(server: EmbeddedServer, migrated: Callable[[EmbeddedServer], None]) -> Iterator[Connection]:
    """An administrator in a transaction that is rolled back, with an allowed schema of a user's."""
    migrated(server)
    with connect(server.admin_dsn, name="test") as conn:
        conn.execute("begin")
        conn.execute(as_sql(SHOP))
        yield conn
        if not conn.closed:
            conn.execute("rollback")


def verdicts(conn: Connection) -> dict[str, Verdict]:
    return {verdict.rule.name: verdict for verdict in examine(look_around(conn), RULES)}


def texts(verdict: Verdict) -> str:
    return "\n".join(finding.what for finding in verdict.findings)


def test_every_rule_holds_on_a_fresh_installation(admin: Connection) -> None:
    found = [(name, verdict.findings, verdict.unseen) for name, verdict in verdicts(admin).items()]
    assert [each for each in found if each[0] != "parameters.shared" and (each[1] or each[2])] == []


def test_every_rule_has_a_weakening_that_it_notices() -> None:
    assert sorted(WEAKENINGS) == sorted(NAMES)
    assert [name for name, cases in WEAKENINGS.items() if not cases] == ["roles.owner"]


@pytest.mark.parametrize(("name", "weakening", "word"), CASES, ids=[f"{case[0]}-{case[2][:40]}" for case in CASES])
def test_a_weakened_database_is_noticed_and_each_fix_taken_literally_cures_it(
    admin: Connection, new_database: Callable[..., Any], name: str, weakening: str, word: str
) -> None:
    if "on parameter" in weakening and admin.info.server_version < 150000:
        pytest.skip("before PostgreSQL 15 nobody can be granted a parameter")
    admin.execute(as_sql(weakening))
    verdict = verdicts(admin)[name]
    assert word in texts(verdict)
    assert verdict.failed is not (verdict.rule.severity is Severity.NOTE)
    fixes = [finding.fix for finding in verdict.findings]
    if not any(fix.startswith("reproq ") for fix in fixes):
        for fix in fixes:
            admin.execute(as_sql(fix))
        assert texts(verdicts(admin)[name]) == ""
        return
    admin.close()
    database = new_database("reproq")
    database.execute(weakening)
    for fix in fixes:
        run(database, fix)
    with connect(database.dsn, name="test") as conn:
        assert texts(verdicts(conn)[name]) == ""


def run(database: Any, fix: str) -> None:
    """As an operator pastes it: SQL into psql, a command into a shell."""
    if not fix.startswith("reproq "):
        database.execute(fix)
        return
    command = fix.replace("reproq", f"{sys.executable} -m reproq", 1)
    environ = {**os.environ, "REPROQ_DATABASE_URL": database.dsn}
    done = subprocess.run(["sh", "-c", command], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_installation_that_its_login_owns_is_told_so(
    new_database: Callable[..., Any], new_login: Callable[..., str], prefix: str
) -> None:
    from reproq.db import migrate

    login = new_login(new_database(), owns=True)
    migrate.migrate(login, role_prefix=prefix, say=lambda _: None)
    with connect(login, name="test") as conn:
        assert "owns all of Reproq's schema" in texts(verdicts(conn)["roles.owner"])


def test_an_empty_database_is_told_to_be_migrated(new_database: Callable[..., Any]) -> None:
    with connect(new_database().dsn, name="test") as conn:
        scene = look_around(conn)
        assert [texts(v) for v in examine(scene, RULES) if v.failed] == [
            "Reproq's schema isn't installed in this database"
        ]
        assert {v.rule.name for v in examine(scene, BASICS) if v.failed} == {"schema.version"}


def test_a_lesser_login_says_what_it_cant_see_and_still_finds_the_rest(database: Any) -> None:
    database.execute("grant select on queues.task_runs to public")
    with connect(database.app_dsn, name="test") as conn:
        found = verdicts(conn)
    unseen = {name for name, verdict in found.items() if verdict.unseen}
    assert {name for name in NAMES if name.startswith("schemas.")} <= unseen
    assert {"definers.text", "definers.search_path"} <= unseen
    assert found["public.relations"].failed


def test_a_member_of_the_owner_that_inherits_nothing_sees_everything(
    database: Any, new_login: Callable[..., str]
) -> None:
    with connect(new_login(database, "noinherit in role reproq_owner"), name="test") as conn:
        assert [name for name, verdict in verdicts(conn).items() if verdict.unseen] == []


def test_an_installation_with_a_role_prefix_is_judged_by_its_own_roles(
    new_database: Callable[..., Any], prefix: str
) -> None:
    from reproq.db import migrate

    database = new_database()
    migrate.migrate(database.dsn, role_prefix=prefix, say=lambda _: None)
    with connect(database.dsn, name="test") as conn:
        assert [name for name, verdict in verdicts(conn).items() if verdict.failed] == []
        conn.execute(
            sql.SQL("grant execute on function queues.replay to {}").format(sql.Identifier(f"{prefix}reproq_app"))
        )
        assert f"{prefix}reproq_app has EXECUTE" in texts(verdicts(conn)["roles.held"])


def test_a_managed_server_without_a_superuser_passes_every_rule(
    new_database: Callable[..., Any], new_login: Callable[..., str], prefix: str
) -> None:
    """As its administrator would do it: a login with CREATEROLE that owns the database migrates, and asks doctor."""
    from reproq.db import migrate

    database = new_database()
    deployer = new_login(database, "createrole", owns=True)
    migrate.migrate(deployer, role_prefix=prefix, say=lambda _: None)
    worker = new_login(database, f"in role {prefix}worker_service_user")
    with connect(deployer, name="test") as conn:
        found = verdicts(conn)
    assert [(name, texts(verdict)) for name, verdict in found.items() if verdict.failed or verdict.unseen] == []
    with connect(worker, name="test") as conn:
        assert conn.execute("select queues.nothing_left(null, null)").fetchone() == (True,)
