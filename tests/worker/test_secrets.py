"""Canaries: in a payload, in the worker's password, in a provider's key. None of them may sing anywhere."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reproq import log
from reproq.cli.options import loaded
from reproq.db.connect import as_sql, connect
from reproq.db.embedded import UNSAFE_AND_FAST, EmbeddedServer, throwaway
from tests.conftest import Database, fast_folder
from tests.worker.harness import ROOT, House, processes, wait_until

PAYLOAD, PASSWORD, KEY = "canary-payload-7f3a", "canary-password-91c2", "canary-key-5d08"
# Everything that an administrator might switch on to see more.
TALKATIVE = {
    "log_statement": "all",
    "log_min_duration_statement": "0",
    "log_min_error_statement": "debug5",
    "log_min_messages": "info",
    "log_error_verbosity": "verbose",
    "log_connections": "on",
    "log_duration": "on",
}
APP = """
from pydantic import BaseModel

class Card(BaseModel):
    number: int

@task("good")
def good(payload, ctx: Context):
    ctx.log.info("charged")
    return {"card": payload["card"]}

@task("raises", max_attempts=2, backoff_base=0.05)
def raises(payload):
    card = payload["card"]
    raise RuntimeError("the bank is closed")

@task("invalid")
def invalid(payload: Card):
    pass

@task("dies", max_attempts=1)
def dies(payload):
    os.kill(os.getpid(), signal.SIGSEGV)

@task("exits", max_attempts=1)
def exits(payload):
    os._exit(3)

@task("hangs", max_attempts=1, timeout=0.2)
def hangs(payload):
    time.sleep(60)

@task("unfit", max_attempts=1)
def unfit(payload):
    return {"card": payload["card"], "not JSON": object()}

@task("looks")
def looks(payload):
    return {"environ": dict(os.environ), "argv": open("/proc/self/cmdline").read().replace("\\0", " ")}

@task("waits")
def waits(payload):
    open(HERE + "/waiting", "w").write("x")
    while not os.path.exists(HERE + "/go"):
        time.sleep(0.01)
"""
FAILING = ("raises", "invalid", "dies", "exits", "hangs", "unfit", "no.such.type")
# A child whose answer is its whole order: what it got it quotes, where an id should stand.
PARROT = """#!/bin/sh
echo '{"v":1}'
read -r line
printf '{"v":1,"id":%s,"claim_no":1,"success":true}\\n' "$line"
"""


@pytest.fixture(scope="module")
def talkative() -> Iterator[EmbeddedServer]:
    with throwaway({**UNSAFE_AND_FAST, **TALKATIVE}, parent=fast_folder()) as server:
        server.install(say=lambda _: None)
        yield server


@pytest.fixture
def house(talkative: EmbeddedServer, tmp_path: Path) -> Iterator[House]:
    with connect(talkative.admin_dsn, name="test") as conn:
        conn.execute("set log_statement = 'none'; set log_min_duration_statement = -1; set log_duration = off")
        conn.execute(as_sql(f"alter role reproq_worker password '{PASSWORD}'"))
    database = Database(talkative, "reproq")
    house = House(database, tmp_path)
    yield house
    house.close()
    database.close()


def worker_dsn(server: EmbeddedServer) -> str:
    return f"postgresql://reproq_worker:{PASSWORD}@127.0.0.1:{server.port}/reproq"


def command_lines() -> str:
    return "\n".join(process.command for process in processes().values())


def scan(places: dict[str, str]) -> dict[str, list[str]]:
    """Where each canary was heard."""
    found = {canary: [name for name, text in places.items() if canary in text] for canary in (PAYLOAD, PASSWORD, KEY)}
    return {canary: names for canary, names in found.items() if names}


def run_everything(house: House, server: EmbeddedServer) -> dict[str, str]:
    """Every way for a task to end, with a worker that says all it can; answers all that may be read afterwards."""
    began = len(server_log(server))
    house.app(APP)
    parrot = house.mark("parrot")
    parrot.write_text(PARROT)
    parrot.chmod(0o755)
    config = house.config(f'[[command]]\nprefix = "parrot."\ncommand = ["{parrot}"]\n')
    worker = house.worker(
        *("--config", config, "--log-level", "debug", "--processes", "2", "--system-processes", "2"),
        dsn=worker_dsn(server), RESEND_API_KEY=KEY, REPROQ_SMTP_URL=f"smtp://u:{KEY}@h:587", TWILIO_AUTH_TOKEN=KEY,
        REPROQ_EMAIL_PROVIDER="resend", RESEND_API_URL="http://127.0.0.1:9", REPROQ_EMAIL_FROM="shop@example.org",
    ).ready()  # fmt: skip
    body = """begin
        if (payload ->> 'fail')::boolean then raise exception 'no money'; end if;
        return jsonb_build_object('success', true, 'payload', payload -> 'card');
    end"""
    name = house.function("pays", body)
    card = {"card": PAYLOAD, "number": PAYLOAD}
    good = [house.enqueue("good", card), house.enqueue("db_function", {"db_function": name, "fail": False, **card})]
    bad = [house.enqueue(task_type, card) for task_type in FAILING]
    bad += [house.enqueue("parrot.talk", card, max_attempts=1)]
    bad += [house.enqueue("db_function", {"db_function": name, "fail": True, **card}, max_attempts=1)]
    rows = house.finals(good + bad)
    assert [row["status"] for row in rows] == ["SUCCESSFUL"] * len(good) + ["FAILED"] * len(bad)
    looks = house.final(house.enqueue("looks"))
    looked = looks["result_json"]
    assert looked, (looks["failure_kind"], looks["last_error"])
    send_mail(house)
    waiting = house.enqueue("waits", card)
    house.wait_mark("waiting")
    listing = command_lines()
    house.mark("go").touch()
    house.final(waiting)
    worker.stop()
    queries = house.sql("select query from pg_stat_activity where usename like 'reproq%'")
    return {
        "log": worker.log + worker.out.read_text(),
        "errors": str([(row["last_error"], row["error_json"]) for row in rows]),
        "events": str(house.sql("select detail::text from queues.task_events")),
        "facts": str(house.sql("select f::text from comms.send_email_task_failed f")),
        "error table": str(house.sql("select message, detail::text from queues.error")),
        "process listing": listing,
        "the child's environment": str(looked["environ"]),
        "the child's argv": looked["argv"],
        "pg_stat_activity": str(queries),
        "server log": server_log(server)[began:],
    }


def send_mail(house: House) -> None:
    """Nobody listens at the provider's address, so the attempt fails, with the key in the sender's hands."""
    house._app.execute("select comms.send_email('you@example.org', %s, text_body => %s)", (PAYLOAD, PAYLOAD))
    wait_until(lambda: house.sql("select from comms.send_email_task_failed"), house.story)


def server_log(server: EmbeddedServer) -> str:
    return (server.folder / "server.log").read_text(errors="replace")


def test_no_canary_sings(house: House, talkative: EmbeddedServer) -> None:
    places = run_everything(house, talkative)
    assert scan(places) == {}
    assert "queues.finish" in places["server log"], (
        "the server has logged the worker's statements, without their values"
    )
    assert "internal.run_task" in places["server log"]
    assert "task_failed" in places["log"] or "failed" in places["log"]


def test_the_scan_hears_a_canary(house: House, talkative: EmbeddedServer) -> None:
    """Else silence would prove nothing: here the server may log what is bound."""
    with connect(talkative.admin_dsn, name="test") as conn:
        conn.execute("alter role reproq_app_login reset log_parameter_max_length")
    try:
        house.reconnect()
        house.app(APP)
        house.enqueue("good", {"card": PAYLOAD + "-loud"})
        assert scan({"server log": server_log(talkative)}) == {PAYLOAD: ["server log"]}
    finally:
        with connect(talkative.admin_dsn, name="test") as conn:
            conn.execute("alter role reproq_app_login set log_parameter_max_length = 0")


def test_a_wrong_password_is_told_without_it(house: House, talkative: EmbeddedServer) -> None:
    house.app(APP)
    worker = house.worker(dsn=worker_dsn(talkative).replace(PASSWORD, PASSWORD + "wrong"))
    assert worker.status() == 2
    assert PASSWORD not in worker.log


def test_a_commands_secrets_are_blanked_wherever_they_turn_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the look of what is around them: alone in a sentence."""
    monkeypatch.setenv("RESEND_API_KEY", "canary-key-alone")
    loaded({"database_url": "postgresql://w:canary-password-alone@h/x"})
    assert "canary" not in log.redact("what was canary-password-alone, and canary-key-alone?")


def test_a_worker_that_waits_for_its_database_shows_no_password_in_ps(tmp_path: Path) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        dsn = f"postgresql://w:{PASSWORD}@127.0.0.1:{deaf.getsockname()[1]}/x"
        command = [sys.executable, "-m", "reproq", "worker", "--database-url", dsn, "--no-migrate"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as worker:
            try:
                assert worker.stderr
                waits = next(line for line in worker.stderr if "waiting for the database" in line)
                listing = Path(f"/proc/{worker.pid}/cmdline").read_text()
            finally:
                worker.kill()
    assert PASSWORD not in waits + listing
    assert "reproq worker" in listing
