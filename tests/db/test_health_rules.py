"""`reproq doctor`: every rule is silent on a healthy installation, and finds what it is for on one that was bent."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from reproq.db.connect import Connection, as_sql, connect
from reproq.db.doctor import Finding, Severity, Verdict, bloat, examine, horizon, line, look_around
from reproq.db.doctor.health import HEALTH
from reproq.db.embedded import EmbeddedServer, throwaway
from reproq.db.reach import way_out
from reproq.db.security import RULES as SECURITY

BY_NAME = {rule.name: rule for rule in HEALTH}
# The suite's own servers are unsafe and fast, which is a finding; these are as a user's should be.
SETTINGS = {"max_prepared_transactions": "5", "autovacuum_naptime": "1h"}
WORKER = "select queues.register_worker('{name}/1/x', '{name}', 1, '{version}', null, null, 2, '{{}}')"
ENQUEUED = "select queues.enqueue('shop.pay', queue_name => 'bulk', scheduled_at => now() - interval '1 hour')"
PAUSED = "; select queues.pause_queue('bulk', true)"
SCHEDULE = "select queues.put_schedule('nightly', 'shop.close', cron => '30 2 * * *', time_zone => 'Europe/Berlin')"
FAILED = (
    "insert into queues.task_runs (task_type, spec_hash, status, failure_kind, completed_at, attempt_count, supervised)"
    " select 'shop.pay', '', 'FAILED', 'raised', now(), 1, {supervised} from generate_series(1, {count})"
)
EVENT = (
    "insert into queues.outbox_event (event_type, ordered, size, sinks_open) values ('shop.paid', false, 1, 1);"
    " insert into queues.outbox_delivery (event_id, sink, state, next_at, ended_at)"
)

# rule → ways to bend a database, each with a word of what it then says and, where it is one, with SQL that cures it
BENT: dict[str, list[tuple[str, str]]] = {
    "server.version": [],  # no server that old is at hand; its own test below
    "schema.roles": [("alter role reproq_dispatcher rename to gone", "no role reproq_dispatcher")],
    "schema.version": [
        ("update internal.schema_version set schema_version = 999, compatible_from = 999", "can't work with it"),
        ("update internal.schema_version set schema_version = 999", "newer than this code's"),
        ("update internal.schema_version set schema_version = 0, compatible_from = 0", "version 0"),
    ],
    "login.might": [],  # every administrator is told so
    "login.worker": [("revoke worker_service_user from reproq_worker", "no login has the role")],
    "server.durable": [
        ("alter role reproq_worker set synchronous_commit = off", "synchronous_commit is off for reproq_worker"),
        ("alter database reproq set synchronous_commit = off", "off for reproq_app_login"),
    ],
    "server.writable": [
        ("alter role reproq_worker set default_transaction_read_only = on", "reproq_worker are read-only"),
    ],
    "server.timeouts": [
        ("alter role reproq_worker set statement_timeout = '900ms'", "statement_timeout is 900ms for reproq_worker"),
        ("alter database reproq set lock_timeout = 100", "lock_timeout is 100 for reproq_app_login"),
        ("alter role reproq_worker in database reproq set idle_session_timeout = '5s'", "idle_session_timeout"),
    ],
    "server.connections": [
        ("alter role reproq_worker connection limit 2", "reproq_worker may have 2 connections"),
        ("alter database reproq connection limit 3", "takes 3 connections"),
    ],
    "server.clock": [],  # its own test below
    "line.direct": [],
    "line.notifications": [],
    "horizon.sessions": [],
    "horizon.prepared": [],
    "horizon.slots": [],
    "bloat.autovacuum": [
        ("alter table queues.task_runs set (autovacuum_enabled = false)", "autovacuum is off for queues.task_runs"),
    ],
    "bloat.rows": [],
    "bloat.indexes": [],
    "workers.served": [(ENQUEUED, "shop.pay in queue bulk has been ready for 01:00:0")],
    "workers.leader": [
        (WORKER.format(name="a", version="1") + "; update queues.workers set started_at = now() - interval '1 h'",
         "none of them has kept house yet"),
    ],
    "workers.versions": [
        (WORKER.format(name="a", version="1") + ";" + WORKER.format(name="b", version="2"), "runs in b/1"),
    ],
    "workers.silent": [
        (WORKER.format(name="a", version="1") + "; update queues.workers set last_heartbeat = now() - interval '1 h'",
         "worker a/1 on a was last heard 01:00:0"),
    ],
    "work.paused": [
        (ENQUEUED + PAUSED, "queue bulk is paused, and its oldest ready task has waited for 01:00:0"),
        (ENQUEUED + "; select queues.pause_type('shop.pay', true)", "type shop.pay is paused"),
    ],
    "work.schedules": [
        (SCHEDULE + "; update queues.schedules set last_error = 'boom'", "schedule nightly failed: boom"),
        (SCHEDULE + "; update queues.schedules set time_zone = 'Mars/Olympus'", "doesn't know: Mars/Olympus"),
        (SCHEDULE + "; update queues.schedules set next_slot = now() - interval '1 h'", "was due 01:00:0"),
    ],
    "work.dead_letters": [
        (FAILED.format(supervised=False, count=1), "1 dead letters of shop.pay"),
        (FAILED.format(supervised=False, count=12), "12 of them within the last hour: they grow"),
    ],
    "work.supervised": [(FAILED.format(supervised=True, count=2), "2 tasks of processes (shop.pay) failed")],
    "work.processes": [
        ("insert into internal.open_process (spec_hash, payload, queue_name, opened_at) values"
         " ('x', '{\"db_function\": \"shop.supervisor\"}', 'default', now() - interval '1 h')",
         "shop.supervisor has been open"),
    ],
    "work.outbox": [
        (EVENT + " select id, 'hook', 'waiting', now() - interval '1 h', null from queues.outbox_event",
         "1 events wait for sink hook, the oldest for 01:00:0"),
        (EVENT + " select id, 'hook', 'parked', now(), now() from queues.outbox_event",
         "1 events are parked for sink hook"),
    ],
}  # fmt: skip
# The same, for what no transaction can undo.
COMMITTED = [
    ("server.durable", "alter system set full_page_writes = off; select pg_reload_conf()", "full_page_writes is off"),
    ("server.timeouts", "alter system set statement_timeout = '2s'; select pg_reload_conf()", "is 2000ms for"),
    ("bloat.autovacuum", "alter system set autovacuum = off; select pg_reload_conf()", "autovacuum is off: "),
    ("horizon.prepared", "begin; create table public.t (); prepare transaction 'lost'", "transaction lost of postgres"),
    ("horizon.slots", "select pg_create_physical_replication_slot('gone', true)", "slot gone (physical) is inactive"),
]
CURED_BY_SQL = {"server.durable", "server.writable", "server.timeouts", "server.connections", "bloat.autovacuum"}
EMPTY = """delete from queues.task_runs; delete from queues.workers; delete from queues.schedules;
    update queues.leader set worker_id = null, until = '-infinity'"""
CASES = [(name, *case) for name, cases in BENT.items() for case in cases]
ALONE = {"server.version", "login.might", "server.clock", "line.direct", "line.notifications", "horizon.sessions"} | {
    "bloat.rows", "bloat.indexes", "horizon.prepared", "horizon.slots",
}  # fmt: skip


@pytest.fixture(scope="module")
def safe_servers() -> Iterator[Callable[[EmbeddedServer], EmbeddedServer]]:
    """A server of the same kind whose settings are a user's, with Reproq installed."""
    started: dict[Path, EmbeddedServer] = {}
    with ExitStack() as stack:

        def get(like: EmbeddedServer) -> EmbeddedServer:
            if like.folder not in started:
                started[like.folder] = stack.enter_context(throwaway(SETTINGS, like.binaries))
                started[like.folder].install(say=lambda _: None)
            return started[like.folder]

        yield get


class Home:
    """The database of that server, as an administrator sees it."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server, self.dsn = server, server.admin_dsn

    def run(self, statements: str) -> None:
        with connect(self.dsn, name="test") as conn:
            run(conn, statements)

    def findings(self, rule: str, conn: Connection | None = None) -> tuple[Finding, ...]:
        if conn is None:
            with connect(self.dsn, name="test") as own:
                return self.findings(rule, own)
        (verdict,) = examine(look_around(conn, self.dsn), [BY_NAME[rule]])
        assert verdict.unseen is None
        return verdict.findings

    def texts(self, rule: str, conn: Connection | None = None) -> str:
        return "\n".join(finding.what for finding in self.findings(rule, conn))


def run(conn: Connection, statements: str) -> None:
    for statement in statements.split(";"):
        if statement.strip():
            conn.execute(as_sql(statement))


@pytest.fixture
def home(server: EmbeddedServer, safe_servers: Callable[[EmbeddedServer], EmbeddedServer]) -> Iterator[Home]:
    made = Home(safe_servers(server))
    yield made
    made.run(EMPTY)


@pytest.fixture
def undone(home: Home) -> Iterator[Connection]:
    """An administrator in a transaction that is rolled back."""
    with connect(home.dsn, name="test") as conn:
        conn.execute("begin")
        yield conn
        conn.execute("rollback")


def test_every_rule_is_silent_on_a_healthy_installation(home: Home) -> None:
    home.run(f"{WORKER.format(name='a', version='1')}; select queues.lead('a/1/x', '60 s'); {SCHEDULE}")
    with connect(home.dsn, name="test") as conn:
        found = {v.rule.name for v in examine(look_around(conn, home.dsn), HEALTH) if v.findings or v.unseen}
    assert found == {"login.might"}


def test_every_rule_has_a_way_to_be_bent() -> None:
    assert sorted(BENT) == sorted(BY_NAME)
    assert {name for name, cases in BENT.items() if not cases} == ALONE


@pytest.mark.parametrize(("rule", "bend", "word"), CASES, ids=[f"{case[0]}-{case[2][:40]}" for case in CASES])
def test_what_was_bent_is_noticed_and_each_fix_in_sql_taken_literally_cures_it(
    home: Home, undone: Connection, rule: str, bend: str, word: str
) -> None:
    run(undone, bend)
    findings = home.findings(rule, undone)
    assert word in "\n".join(finding.what for finding in findings)
    assert all(finding.fix for finding in findings)
    if rule in CURED_BY_SQL:
        run(undone, "; ".join(finding.fix.partition("--")[0] for finding in findings))
        assert home.texts(rule, undone) == ""


@pytest.mark.parametrize(("rule", "bend", "word"), COMMITTED)
def test_so_is_what_no_transaction_can_undo(
    home: Home, monkeypatch: pytest.MonkeyPatch, rule: str, bend: str, word: str
) -> None:
    monkeypatch.setattr(horizon, "OLD_S", -1)
    home.run(bend)
    findings = wait_for(lambda: home.findings(rule))  # a server takes a moment to read its settings again
    assert word in "\n".join(finding.what for finding in findings)
    home.run("; ".join(finding.fix.partition("--")[0] for finding in findings))
    wait_for(lambda: not home.findings(rule))


def test_severities_are_told_apart(home: Home, undone: Connection) -> None:
    def verdict() -> Verdict:
        return examine(look_around(undone), [BY_NAME["work.dead_letters"]])[0]

    run(undone, FAILED.format(supervised=False, count=1))
    assert (verdict().failed, verdict().word) == (False, "1 told")
    run(undone, FAILED.format(supervised=False, count=12))
    assert (verdict().failed, verdict().word, verdict().findings[0].severity) == (True, "1 found", Severity.WARNING)


def test_a_session_that_holds_a_snapshot_is_named_and_its_fix_ends_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(horizon, "OLD_S", -1)
    with psycopg.connect(home.dsn, application_name="forgotten report") as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select count(*) from queues.task_runs")
        (finding,) = home.findings("horizon.sessions")
        assert (
            f"session {holder.info.backend_pid} (forgotten report, login postgres, idle in transaction)" in finding.what
        )
        home.run(finding.fix)
        with pytest.raises(psycopg.OperationalError):
            holder.execute("select 1")


def test_a_session_that_is_idle_in_a_transaction_is_named_too(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horizon, "OLD_S", -1)
    with psycopg.connect(home.dsn, application_name="coffee break") as holder:
        holder.execute("lock table queues.settings in share mode")
        assert "coffee break" in home.texts("horizon.sessions")


def test_dead_rows_are_noticed_and_the_fix_clears_them(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bloat, "DEAD_ROWS", 1000)
    home.run(FAILED.format(supervised=False, count=5000))
    home.run("delete from queues.task_runs")
    (finding,) = wait_for(lambda: home.findings("bloat.rows"))
    assert "queues.task_runs has " in finding.what
    assert "dead rows beside 0 live ones; autovacuum has never come" in finding.what
    home.run(finding.fix.partition("--")[0])
    wait_for(lambda: not home.findings("bloat.rows"))


def test_a_swollen_claim_index_is_noticed_and_the_fix_shrinks_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bloat, "INDEX_BYTES", 500_000)
    home.run("select queues.enqueue_many('shop.pay', array_fill('{}'::jsonb, array[20000]))")
    home.run("vacuum analyze queues.task_runs")
    assert home.texts("bloat.indexes") == ""
    home.run("delete from queues.task_runs where id % 100 <> 0; vacuum analyze queues.task_runs")
    findings = home.findings("bloat.indexes")
    assert "index queues.task_runs_claim takes" in "".join(finding.what for finding in findings)
    for finding in findings:
        home.run(finding.fix)
    assert home.texts("bloat.indexes") == ""


def test_a_clock_that_is_off_is_noticed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    assert "the server's clock is 3600 s ahead of this host's" in home.texts("server.clock")


def test_a_server_that_is_too_old_is_noticed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reproq.db.doctor.basics.OLDEST_SERVER", 990000)
    assert "the server is PostgreSQL " in home.texts("server.version")


def test_a_pooler_in_transaction_mode_is_recognised(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "PATIENCE_S", 0.3)
    with pooler(home, tmp_path) as dsn, connect(dsn, name="test") as conn:
        found = {v.rule.name: v for v in examine(look_around(conn, dsn), line.RULES)}
    assert "a pooler stands between" in found["line.direct"].findings[0].what
    assert "finds a new task at its next poll" in found["line.notifications"].findings[0].what
    assert found["line.notifications"].failed
    assert not found["line.direct"].failed


def test_a_look_leaves_no_setting_in_a_session_that_a_pooler_may_hand_to_the_application(home: Home) -> None:
    changed = "select name, setting from pg_settings where source = 'session' order by 1"
    with connect(home.dsn, name="test") as conn:
        before = conn.execute(changed).fetchall()
        examine(look_around(conn), (*HEALTH, *SECURITY))
        assert conn.execute(changed).fetchall() == before


def test_an_older_schema_is_said_and_no_traceback(home: Home, undone: Connection) -> None:
    run(undone, "drop table queues.outbox_delivery cascade")
    (verdict,) = examine(look_around(undone), [BY_NAME["work.outbox"]])
    assert verdict.unseen == "a schema that isn't this code's: see schema.version first"


def test_a_lesser_login_says_what_it_cant_see(home: Home) -> None:
    with connect(home.server.app_dsn(), name="test") as conn:
        found = {v.rule.name: v for v in examine(look_around(conn), HEALTH)}
    unseen = {name for name, verdict in found.items() if verdict.unseen}
    assert {"workers.served", "work.schedules", "horizon.sessions", "schema.version"} <= unseen
    assert not any(verdict.failed for verdict in found.values())


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"password": "wrong"}, "mind user and password"),
        ({"dbname": "nowhere"}, "create database"),
        ({"user": "nobody"}, "mind"),
        ({"port": "1"}, "start PostgreSQL"),
        ({"host": "nowhere.invalid"}, "mind the host name"),
    ],
)
def test_a_connection_that_doesnt_come_about_has_a_way_out(home: Home, change: dict[str, str], word: str) -> None:
    with pytest.raises(psycopg.OperationalError) as refused:
        connect(psycopg.conninfo.make_conninfo(home.dsn, **change), name="test")
    assert word in way_out(str(refused.value))


def wait_for(look: Callable[[], Any]) -> Any:
    """Statistics arrive a moment after what they count."""
    until = time.monotonic() + 20
    while not (found := look()):
        assert time.monotonic() < until
    return found


@contextmanager
def pooler(home: Home, folder: Path) -> Iterator[str]:
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip("no pgbouncer is installed")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    info = psycopg.conninfo.conninfo_to_dict(home.dsn)
    (folder / "users").write_text(f'"postgres" "{info["password"]}"\n')
    (folder / "ini").write_text(
        f"[databases]\nreproq = host=127.0.0.1 port={info['port']} dbname=reproq\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = plain\nauth_file = {folder}/users\n"
        "pool_mode = transaction\nunix_socket_dir =\n"
    )
    for path in (folder, folder / "users", folder / "ini"):
        path.chmod(0o755)
    for parent in list(folder.parents)[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    as_user: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
    running = subprocess.Popen([program, "-q", str(folder / "ini")], **as_user)
    dsn = f"postgresql://postgres:{info['password']}@127.0.0.1:{port}/reproq"
    try:
        until = time.monotonic() + 10
        while True:
            try:
                connect(dsn, name="test").close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < until
                assert running.poll() is None
        yield dsn
    finally:
        running.terminate()
        running.wait(10)
