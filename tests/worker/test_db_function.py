"""Tasks that are database functions: their writes and the end of their task are one transaction."""

from __future__ import annotations

import os
import signal

import pytest

from tests.worker.harness import House, wait_until

WRITES = "insert into shop.effect (note) values (payload ->> 'note');"


@pytest.fixture(autouse=True)
def effects(house: House) -> None:
    house.function("nothing", """begin return '{"success": true}'; end""")
    house.sql("create table shop.effect (note text); grant all on shop.effect to worker_service_user")


def enqueue(house: House, function: str, **more: object) -> int:
    return house.enqueue("db_function", {"db_function": function, "note": "written"}, **more)


def notes(house: House) -> int:
    return int(house.one("select count(*) from shop.effect"))


def test_a_function_succeeds_and_its_writes_and_result_are_there_together(house: House) -> None:
    body = f"""begin {WRITES} return jsonb_build_object('success', true, 'payload', payload -> 'note'); end"""
    task_id = enqueue(house, house.function("writes", body))
    worker = house.worker("--system-processes", "1").ready()
    row = house.final(task_id)
    assert (row["status"], row["result_json"], notes(house)) == ("SUCCESSFUL", "written", 1)
    assert worker.stop() == 0


def test_an_error_is_retried_and_leaves_no_writes(house: House) -> None:
    body = f"""begin {WRITES} return jsonb_build_object('success', false, 'error', 'not yet'); end"""
    task_id = enqueue(house, house.function("errs", body), max_attempts=2)
    worker = house.worker("--system-processes", "1").ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"], row["last_error"]) == ("FAILED", "raised", "not yet")
    assert (row["attempt_count"], notes(house)) == (2, 0)
    assert [event["event"] for event in house.history(task_id)] == ["retried", "failed"]
    worker.wait_event("task_retried", task_id=task_id)


def test_a_validation_failure_keeps_its_writes_is_not_retried_and_is_in_the_error_table(house: House) -> None:
    body = (
        f"""begin {WRITES} return jsonb_build_object('success', false, 'validation_failure_message', 'no note'); end"""
    )
    name = house.function("invalid", body)
    task_id = enqueue(house, name, max_attempts=5)
    house.worker("--system-processes", "1").ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"], row["attempt_count"]) == ("FAILED", "validation", 1)
    assert notes(house) == 1
    assert house.sql("select task_id, function_name, message from queues.error") == [(task_id, name, "no note")]


def test_an_exception_is_retried_with_its_sqlstate_and_leaves_no_writes(house: House) -> None:
    body = f"""begin {WRITES} perform 1 / 0; return null; end"""
    task_id = enqueue(house, house.function("raises", body), max_attempts=1)
    house.worker("--system-processes", "1").ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"], notes(house)) == ("FAILED", "raised", 0)
    assert "division by zero" in row["last_error"]
    assert row["error_json"]["sqlstate"] == "22012"


@pytest.mark.parametrize(
    "answer",
    ["null", "'[]'", """'{"success": true, "error": "x"}'""", """'{"success": false}'""", """'{"success": "yes"}'"""],
)
def test_an_answer_that_is_no_envelope_is_a_bad_envelope_and_leaves_no_writes(house: House, answer: str) -> None:
    task_id = enqueue(house, house.function("odd", f"begin {WRITES} return {answer}; end"), max_attempts=1)
    house.worker("--system-processes", "1").ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"], notes(house)) == ("FAILED", "bad_envelope", 0)


def test_a_function_that_the_worker_may_not_run_fails_its_task_at_once(house: House) -> None:
    name = house.function("secret", f"""begin {WRITES} return '{{"success": true}}'; end""")
    house.sql("revoke execute on function shop.secret(jsonb) from worker_service_user, public")
    task_id = enqueue(house, name, max_attempts=5)
    house.worker("--system-processes", "1").ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"], row["attempt_count"]) == ("FAILED", "no_handler_registered", 1)
    assert notes(house) == 0


SLEEPS = f"""begin {WRITES} perform pg_sleep(60); return '{{"success": true}}'; end"""
WHERE = (
    "select pid from pg_stat_activity"
    " where application_name like 'reproq system child %%' and wait_event = 'PgSleep' and datname = %s"
)


def session_of(house: House) -> int:
    """The server process in which a function runs."""
    found = wait_until(lambda: house.sql(WHERE, house.database.name), "a function that runs")
    return int(found[0][0])


def gone(house: House, session: int) -> bool:
    return not house.sql("select 1 from pg_stat_activity where pid = %s", session)


def sleeps_once(house: House) -> str:
    """Sleeps for a minute in its first execution only."""
    house.sql("create sequence shop.runs; grant all on sequence shop.runs to worker_service_user")
    body = f"begin {WRITES} if nextval('shop.runs') = 1 then perform pg_sleep(60); end if; "
    return house.function("sleeps_once", body + """return '{"success": true}'; end""")


def test_a_killed_system_child_takes_its_session_along_and_nothing_was_committed(house: House) -> None:
    task_id = enqueue(house, sleeps_once(house))
    worker = house.worker("--system-processes", "1", "--log-level", "debug").ready()
    child = worker.wait_event("child_ready")["child_pid"]
    session = session_of(house)
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: gone(house, session), "the end of the session", 10)
    assert notes(house) == 0
    house.sql("update queues.task_runs set run_after = now() where id = %s and status = 'RETRYING'", task_id)
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"], notes(house)) == ("SUCCESSFUL", 2, 1)
    assert house.detail(task_id, "retried")["kind"] == "killed"


def test_functions_behind_one_that_is_killed_run_once_and_are_not_charged(house: House) -> None:
    """They may wait in its child's socket by then, or have been taken back from it."""
    writes = house.function("writes", f"""begin {WRITES} return '{{"success": true}}'; end""")
    before = [enqueue(house, writes) for _ in range(40)]
    sleeps = enqueue(house, house.function("sleeps", SLEEPS), max_attempts=1)
    behind = [enqueue(house, writes) for _ in range(40)]
    worker = house.worker("--system-processes", "1", "--log-level", "debug").ready()
    child = worker.wait_event("child_ready")["child_pid"]
    session_of(house)
    os.kill(child, signal.SIGKILL)
    rows = house.finals([*before, *behind])
    assert {(row["status"], row["attempt_count"], row["claim_no"]) for row in rows} == {("SUCCESSFUL", 1, 1)}
    assert (house.final(sleeps)["failure_kind"], notes(house)) == ("killed", len(rows))


def test_a_killed_worker_takes_the_sessions_of_its_functions_along(house: House) -> None:
    enqueue(house, house.function("sleeps", SLEEPS))
    worker = house.worker("--system-processes", "1").ready()
    session = session_of(house)
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: gone(house, session), "the end of the session", 10)
    assert notes(house) == 0


def test_heartbeats_dont_wait_for_a_function_that_takes_longer_than_the_lease(house: House) -> None:
    body = f"""begin {WRITES} perform pg_sleep(6); return '{{"success": true}}'; end"""
    task_id = enqueue(house, house.function("long", body), max_attempts=1)
    worker = house.worker("--system-processes", "1", "--lease", "4s", "--heartbeat", "1s").ready()
    house.worker("--system-processes", "1", "--lease", "4s", "--heartbeat", "1s").ready()
    row = house.final(task_id)
    assert (row["status"], row["claim_no"], notes(house)) == ("SUCCESSFUL", 1, 1)
    assert not worker.events("lease_lost")
    assert not worker.events("heartbeat_late")


def test_a_cancelled_function_is_stopped_and_leaves_no_writes(house: House) -> None:
    task_id = enqueue(house, house.function("sleeps", SLEEPS))
    worker = house.worker("--system-processes", "1", "--kill-grace", "0.3s").ready()
    session = session_of(house)
    assert house.cancel(task_id) == "stopping"
    row = house.final(task_id)
    assert (row["status"], row["result_json"]) == ("CANCELLED", None)
    wait_until(lambda: gone(house, session), "the end of the session", 10)
    assert notes(house) == 0
    nothing = enqueue(house, "shop.nothing")
    assert house.final(nothing)["status"] == "SUCCESSFUL"
    assert worker.stop() == 0


def test_a_function_that_runs_too_long_is_timed_out_and_leaves_no_writes(house: House) -> None:
    task_id = enqueue(house, sleeps_once(house), timeout="700 milliseconds")
    house.worker("--system-processes", "1").ready()
    session = session_of(house)
    house.wait_status(task_id, "RETRYING", "SUCCESSFUL")
    wait_until(lambda: gone(house, session), "the end of the session", 10)
    assert house.final(task_id)["status"] == "SUCCESSFUL"
    assert notes(house) == 1
    assert house.detail(task_id, "retried")["kind"] == "timed_out"


def test_a_lost_lease_rolls_the_function_back(house: House) -> None:
    body = f"begin {WRITES} perform pg_sleep(2); return '{{\"success\": true}}'; end"
    task_id = enqueue(house, house.function("loses", body))
    worker = house.worker("--system-processes", "1", "--heartbeat", "10s").ready()
    session_of(house)
    house.sql("update queues.task_runs set claim_no = claim_no + 1, worker_id = 'other/1/x' where id = %s", task_id)
    worker.wait_event("result_dropped", task_id=task_id)
    row = house.row(task_id)
    assert (row["status"], row["claim_no"], notes(house)) == ("RUNNING", 2, 0)


def test_a_drain_that_runs_out_of_time_stops_a_function_and_gives_it_back(house: House) -> None:
    task_id = enqueue(house, house.function("sleeps", SLEEPS))
    worker = house.worker("--system-processes", "1", "--drain-timeout", "0.3s", "--kill-grace", "0.5s").ready()
    session = session_of(house)
    assert worker.stop() == 0
    wait_until(lambda: gone(house, session), "the end of the session", 10)
    row = house.row(task_id)
    assert (row["status"], row["attempt_count"], row["give_backs"], notes(house)) == ("PENDING", 0, 1, 0)


LEAVES = """
    begin
        perform set_config('statement_timeout', '1', false), set_config('search_path', 'shop', false);
        perform set_config('role', 'worker_service_user', false);
        perform pg_advisory_lock(4711);
        create temp table kept (x int);
        listen gossip;
        execute 'declare held cursor with hold for select 1';
        execute 'prepare mine as select 1';
        create temp sequence numbers;
        perform nextval('numbers');
        {end}
    end"""
LOOKS = """
    begin
        return jsonb_build_object('success', true, 'payload', jsonb_build_array(
            current_setting('statement_timeout'), current_setting('search_path'), current_setting('role'),
            (select count(*) from pg_locks where locktype = 'advisory' and objid = 4711),
            (select count(*) from pg_class where relname = 'kept'),
            (select count(*) from pg_listening_channels()), (select count(*) from pg_cursors where is_holdable),
            (select count(*) from pg_prepared_statements where from_sql)));
    end"""


@pytest.mark.parametrize("end", ["return '{\"success\": true}';", "raise 'no';", 'return \'{"error": "no"}\';'])
def test_what_one_function_leaves_in_its_session_is_not_there_for_the_next(house: House, end: str) -> None:
    before = house.function("looks", LOOKS)
    leaves = house.function("leaves", LEAVES.format(end=end))
    worker = house.worker("--system-processes", "1")
    worker.ready()
    clean = house.final(enqueue(house, before))["result_json"]
    assert clean is not None
    assert clean[3:] == [0, 0, 0, 0, 0]
    for _ in range(2):
        house.final(enqueue(house, leaves, max_attempts=1))
        assert house.final(enqueue(house, before))["result_json"] == clean


def test_functions_and_app_tasks_run_side_by_side(house: House) -> None:
    house.app("@task('ok')\ndef ok(payload): return 1\n")
    ids = [enqueue(house, "shop.nothing") for _ in range(20)] + house.enqueue_many("ok", [{}] * 20)
    assert house.worker("--system-processes", "2", "--until-empty").status() == 0
    assert {row["status"] for row in house.finals(ids)} == {"SUCCESSFUL"}


def test_a_connection_that_was_lost_while_idle_costs_no_attempt(house: House) -> None:
    function = house.function("fine", """begin return '{"success": true}'; end""")
    house.worker("--system-processes", "2").ready()
    house.final(enqueue(house, function))
    ended = house.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name like 'reproq system child %%' and datname = current_database()"
    )
    assert ended
    for task_id in [enqueue(house, function, max_attempts=1) for _ in range(4)]:
        assert house.final(task_id)["status"] == "SUCCESSFUL"
