"""The process that `reproq process new` writes, driven by hand: what its own test leaves out."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from reproq.cli.scaffold import write
from reproq.db import process_files
from tests.conftest import Database


class Visit:
    """The process `visit`, with the clock of its facts in the test's hand."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.id = self.kickoff()

    def kickoff(self, subject: int = 1, scheduled_at: str = "now()") -> int:
        return int(self.one(f"select visit.kickoff_visit_task({subject}, 'ann@example.org', {scheduled_at})"))

    def one(self, statement: str, *values: object) -> Any:
        return self.database.execute(statement, *values)[0][0]

    def supervise(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.one("select visit.visit_supervisor(%s)", json.dumps({"visit_task_id": self.id}))
        return answer

    def payload(self) -> dict[str, Any]:
        """Of the newest attempt, as its handlers get it."""
        payload, task_run_id = self.database.execute(
            "select t.payload_json, t.id from visit.visit_task_scheduled a"
            " join queues.task_runs t on t.id = a.task_run_id"
            " where a.visit_task_id = %s order by a.attempt_id desc limit 1",
            self.id,
        )[0]
        return {**payload, "execution": {"task_run_id": task_run_id}}

    def start(self) -> dict[str, Any]:
        payload = self.payload()
        assert self.one("select visit.get_visit_payload(%s)", json.dumps(payload))["success"]
        return payload

    def succeed(self, payload: dict[str, Any]) -> dict[str, Any]:
        told = {"original_payload": payload, "worker_payload": {"provider_message_id": "x"}}
        answer: dict[str, Any] = self.one("select visit.record_visit_success(%s)", json.dumps(told))
        return answer

    def fail(self, payload: dict[str, Any], **error: object) -> dict[str, Any]:
        told = {"original_payload": payload, "error": {"kind": "provider_refused", "permanent": False} | error}
        answer: dict[str, Any] = self.one("select visit.record_visit_failure(%s)", json.dumps(told))
        return answer

    def lose_task(self) -> None:
        self.one("update queues.task_runs set deleted_at = now() where id = %s returning id", self.task_run_id())

    def task_run_id(self) -> int:
        return int(self.payload()["execution"]["task_run_id"])

    def count(self, fact: str, what: str = "true") -> int:
        return int(self.one(f"select count(*) from visit.visit_task_{fact} where {what}"))

    def outcome(self) -> str | None:
        rows = self.database.execute("select outcome from visit.visit_task_ended where visit_task_id = %s", self.id)
        return rows[0][0] if rows else None

    def pass_time(self) -> None:
        """A day goes by, as far as facts are concerned."""
        with self.database.connect() as conn, conn.transaction():
            conn.execute("set local session_replication_role = replica")
            for table in ("visit_task", "visit_task_scheduled", "visit_task_failed"):
                conn.execute(f"update visit.{table} set created_at = created_at - interval '1 day'")

    def next_check(self) -> float | None:
        """Seconds until the supervisor's waiting run."""
        rows = self.database.execute(
            "select extract(epoch from run_after - clock_timestamp())::float8 from queues.task_runs"
            " where task_type = 'db_function' and status = 'PENDING' and payload_json @> %s",
            json.dumps({"visit_task_id": self.id}),
        )
        return float(rows[0][0]) if rows else None

    def forget_runs(self) -> None:
        """The waiting run has been claimed: the next one is the supervisor's own choice."""
        self.database.execute("delete from queues.task_runs where task_type = 'db_function'")


@pytest.fixture
def visit(database: Database, tmp_path: Path) -> Visit:
    write("visit", tmp_path / "own")
    process_files.apply(database.dsn, tmp_path / "own", say=lambda _line: None)
    return Visit(database)


def test_a_process_for_tomorrow_is_first_looked_at_tomorrow(visit: Visit) -> None:
    visit.forget_runs()
    visit.id = visit.kickoff(2, "now() + interval '1 day'")
    assert 86_000 < (visit.next_check() or 0) <= 86_400
    visit.supervise()  # somebody is early
    assert visit.count("scheduled") == 0


def test_two_hundred_supervisors_at_once_schedule_one_attempt_and_end_as_one_chain(visit: Visit) -> None:
    gate = threading.Barrier(20)

    def run() -> None:
        with visit.database.connect() as conn:
            gate.wait()
            for _ in range(10):
                conn.execute("select visit.visit_supervisor(%s)", [json.dumps({"visit_task_id": visit.id})])

    threads = [threading.Thread(target=run) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert visit.count("scheduled") == 1
    assert visit.one("select count(*) from queues.task_runs where task_type = 'db_function'") == 1
    assert visit.one("select count(*) from queues.task_runs where task_type = 'email'") == 1


def test_a_failure_is_waited_out_by_a_pause_that_doubles(visit: Visit) -> None:
    visit.database.execute("set session_replication_role = replica; update visit.visit_task set max_attempts = 9")
    for pause in (10, 20, 40):
        visit.supervise()
        visit.fail(visit.start())
        visit.forget_runs()
        visit.supervise()
        assert pause - 2 < (visit.next_check() or 0) <= pause
        assert visit.outcome() is None
        visit.pass_time()


def test_a_permanent_failure_ends_it_at_once(visit: Visit) -> None:
    visit.supervise()
    visit.fail(visit.start(), kind="validation", permanent=True)
    visit.supervise()
    assert visit.outcome() == "failed"
    assert visit.one("select count(*) from internal.open_process") == 0


def test_an_answer_that_was_lost_ends_it_as_unknown(visit: Visit) -> None:
    visit.supervise()
    visit.fail(visit.start(), kind="unknown")
    visit.supervise()
    assert (visit.outcome(), visit.count("scheduled")) == ("unknown", 1)


def test_a_task_that_is_over_after_its_start_without_an_outcome_ends_it_as_unknown(visit: Visit) -> None:
    visit.supervise()
    payload = visit.start()
    visit.supervise()
    assert visit.outcome() is None
    visit.lose_task()
    visit.supervise()
    assert (visit.outcome(), visit.count("scheduled")) == ("unknown", 1)
    assert "validation_failure_message" in visit.succeed(payload)


def test_what_never_started_uses_up_no_attempt_but_the_run_limit_ends_it(visit: Visit) -> None:
    while visit.outcome() is None:
        visit.supervise()
        visit.lose_task()
        visit.supervise()
        visit.pass_time()
        assert visit.count("scheduled") <= 20
    assert visit.outcome() == "run_limit"
    assert visit.count("failed", "kind = 'never_started'") == visit.count("scheduled") == 20
    assert visit.one("select visit.count_visit_task_failures(%s)", visit.id) == 0


def test_waiting_for_an_attempt_grows_and_decides_nothing(visit: Visit) -> None:
    began = time.monotonic()
    visit.supervise()
    for _ in range(30):
        visit.forget_runs()
        visit.supervise()
    assert (visit.next_check() or 0) <= max(3, time.monotonic() - began)  # as long again as it has waited
    visit.pass_time()
    visit.forget_runs()
    visit.supervise()
    assert 290 < (visit.next_check() or 0) <= 300
    assert (visit.outcome(), visit.count("scheduled")) == (None, 1)


def test_an_outcome_wakes_the_supervisor(visit: Visit) -> None:
    visit.supervise()
    visit.pass_time()
    visit.forget_runs()
    visit.supervise()
    assert (visit.next_check() or 0) > 200
    visit.succeed(visit.start())
    assert (visit.next_check() or 0) <= 0
    visit.supervise()
    assert visit.outcome() == "succeeded"
    visit.forget_runs()
    visit.supervise()
    assert visit.next_check() is None


def test_a_success_told_twice_is_one(visit: Visit) -> None:
    visit.supervise()
    payload = visit.start()
    assert visit.succeed(payload)["success"]
    assert visit.succeed(payload)["success"]
    assert visit.count("succeeded") == 1
    assert visit.fail(payload)["success"]
    assert visit.count("failed") == 0


@pytest.mark.parametrize(
    "forged",
    [
        {"execution": {"token": "guessed"}},
        {"execution": {"task_run_id": 4711, "claim_no": 1, "token": ""}},
        {"attempt_id": 4711},
        {"visit_task_id": 4711},
        {"attempt_id": "x"},
    ],
)
def test_a_handler_believes_only_the_open_attempts_own_task(visit: Visit, forged: dict[str, Any]) -> None:
    visit.supervise()
    payload = visit.payload() | forged
    refused = visit.one("select visit.get_visit_payload(%s)", json.dumps(payload))
    assert "validation_failure_message" in refused
    visit.start()
    assert "validation_failure_message" in visit.succeed(payload)
    visit.fail(payload)
    assert visit.count("succeeded") + visit.count("failed") == 0


def test_an_attempt_starts_once_and_succeeds_only_if_it_was_started(visit: Visit) -> None:
    visit.supervise()
    payload = visit.payload()
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        visit.succeed(payload)
    visit.fail(payload)
    assert visit.count("failed") == 0
    visit.start()
    again = visit.one("select visit.get_visit_payload(%s)", json.dumps(payload))
    assert "validation_failure_message" in again


def test_one_outcome_an_attempt_holds_for_the_owner_too(visit: Visit) -> None:
    visit.supervise()
    visit.fail(visit.start())
    attempt = visit.one("select attempt_id from visit.visit_task_failed")
    with pytest.raises(psycopg.Error, match="has an outcome already"):
        visit.database.execute("insert into visit.visit_task_succeeded values (%s, %s)", attempt, visit.id)


@pytest.mark.parametrize("fact", ["", "_scheduled", "_started", "_failed", "_succeeded", "_ended"])
def test_every_fact_stays(visit: Visit, fact: str) -> None:
    for change in ("update {} set created_at = now()", "delete from {}", "truncate {} cascade"):
        with pytest.raises(psycopg.Error, match="added, never changed"):
            visit.database.execute(change.format(f"visit.visit_task{fact}"))
