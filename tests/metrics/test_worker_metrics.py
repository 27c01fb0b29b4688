"""What a real worker tells over HTTP while tasks run, children die and the database goes away."""

from __future__ import annotations

import os
import signal

import pytest

from tests.metrics.scraped import Scrape, get, is_ready, measured_worker, readiness, scrape, scrape_when
from tests.worker.harness import House, wait_until


def test_a_worker_counts_what_became_of_its_tasks(house: House) -> None:
    house.app(
        "@task('count.fine')\ndef fine(payload): pass\n"
        "@task('count.bad', max_attempts=1)\ndef bad(payload): raise ValueError('no')\n"
        "@task('count.dies', max_attempts=1)\ndef dies(payload): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    worker = measured_worker(house)
    ids = house.enqueue_many("count.fine", [{}] * 40)
    ids += [house.enqueue("count.bad"), house.enqueue("count.dies"), house.enqueue("count.unknown", max_attempts=1)]
    house.finals(ids)
    seen = scrape_when(worker, lambda s: s.value("reproq_outcomes_total") >= 43)
    outcomes = {(labels["task_type"], labels["outcome"]): n for labels, n in seen.samples("reproq_outcomes_total") if n}
    assert outcomes == {
        ("count.fine", "succeeded"): 40,
        ("count.bad", "raised"): 1,
        ("count.dies", "killed"): 1,
        ("other", "no_handler_registered"): 1,
    }
    assert seen.value("reproq_run_seconds_count", task_type="count.fine") == 40
    assert seen.value("reproq_queue_wait_seconds_count", queue="default") == 42
    assert seen.value("reproq_tasks_claimed_total") == 43
    assert seen.value("reproq_claims_total", result="tasks") >= 1
    assert seen.value("reproq_child_ends_total", pool="app", cause="killed") == 1


def test_the_time_in_the_queue_is_counted_from_when_a_task_was_due(house: House) -> None:
    house.app("@task('wait.here')\ndef here(payload): pass\n")
    task = house.enqueue("wait.here")
    house.sql("update queues.task_runs set created_at = now() - interval '1 h', run_after = now() - interval '40 s'")
    worker = measured_worker(house)
    house.final(task)
    seen = scrape_when(worker, lambda s: s.value("reproq_queue_wait_seconds_count"))
    assert 40 <= seen.value("reproq_queue_wait_seconds_sum") < 100
    assert seen.value("reproq_queue_wait_seconds_bucket", le="30.0") == 0
    assert seen.value("reproq_queue_wait_seconds_bucket", le="300.0") == 1


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=1.0.0,text/plain;q=0.5", "text/plain"])
def test_prometheus_own_parsers_read_both_formats(house: House, accept: str) -> None:
    house.app("@task('some.type')\ndef some(payload): pass\n")
    worker = measured_worker(house)
    house.final(house.enqueue("some.type"))
    wait_until(lambda: is_ready(worker))
    _, kind, text = get(worker, "/metrics", accept)
    is_open = accept.startswith("application")
    assert kind.startswith("application/openmetrics-text" if is_open else "text/plain")
    seen = Scrape(text, is_open=is_open)
    assert seen.value("reproq_worker_ready") == 1
    assert all(family.documentation for family in seen.families)


def test_no_payload_and_no_id_is_told(house: House) -> None:
    house.app("@task('quiet.type', max_attempts=1)\ndef quiet(payload): raise ValueError(payload['secret'])\n")
    worker = measured_worker(house)
    house.sql("select setval(pg_get_serial_sequence('queues.task_runs', 'id'), 7654321)")
    task = house.enqueue("quiet.type", {"secret": "hush-hush"}, idempotency_key="key-of-mine")
    house.final(task)
    seen = scrape_when(worker, lambda s: s.value("reproq_outcomes_total"))
    for word in ("hush-hush", str(task), "key-of-mine", house.row(task)["worker_id"] or "/"):
        assert word not in seen.text, word


def test_a_killed_child_is_told_by_cause_and_replaced(house: House) -> None:
    house.app("@task('long.type')\ndef long(payload): time.sleep(60)\n")
    worker = measured_worker(house, "--processes", "2")
    wait_until(lambda: scrape(worker).value("reproq_children", pool="app", state="idle") == 2)
    os.kill(worker.children()[0].pid, signal.SIGKILL)
    seen = scrape_when(worker, lambda s: s.value("reproq_child_starts_total", pool="app") == 3)
    assert seen.value("reproq_child_ends_total", pool="app", cause="killed") == 1


def test_readiness_says_what_is_missing(house: House) -> None:
    house.app("@task('long.type')\ndef long(payload):\n open(HERE + '/begun', 'w').write('x')\n time.sleep(2)\n")
    worker = measured_worker(house)
    wait_until(lambda: is_ready(worker))
    assert readiness(worker) == {
        "ready": True, "loop": True, "database": True, "children": True, "draining": False, "why": [],
    }  # fmt: skip
    house.enqueue("long.type")
    house.wait_mark("begun")
    worker.send(signal.SIGTERM)
    wait_until(lambda: not is_ready(worker))
    assert readiness(worker)["why"] == ["draining"]
    assert get(worker, "/livez")[0] == 200
    assert worker.status() == 0


def test_a_worker_without_its_database_is_alive_and_not_ready(house: House) -> None:
    house.app("@task('some.type')\ndef some(payload): pass\n")
    worker = measured_worker(house)
    wait_until(lambda: is_ready(worker))
    house.sql("alter role reproq_worker connection limit 0")
    house.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'reproq_worker'")
    try:
        wait_until(lambda: not is_ready(worker))
        assert readiness(worker)["why"] == ["the database does not answer"]
        assert get(worker, "/livez")[0] == 200
        assert scrape(worker).value("reproq_connected") == 0
    finally:
        house.sql("alter role reproq_worker connection limit -1")
    wait_until(lambda: is_ready(worker))
    assert wait_until(lambda: scrape(worker).value("reproq_reconnects_total", line="heartbeat")) == 1
    assert scrape(worker).value("reproq_reconnects_total", line="claims") == 1


_STOPPER = "import signal, time\nsignal.signal(signal.SIGUSR1, lambda *_: time.sleep(4))\n"


def test_a_stuck_loop_is_seen_while_it_is_stuck(house: House) -> None:
    """The loop's thread sleeps in a signal handler that the test slips into the interpreter."""
    house.app("@task('some.type')\ndef some(payload): pass\n")
    house.mark("sitecustomize.py").write_text(_STOPPER)
    worker = measured_worker(house, "--lease", "3s")
    wait_until(lambda: is_ready(worker))
    assert get(worker, "/livez")[0] == 200
    worker.send(signal.SIGUSR1)
    wait_until(lambda: get(worker, "/livez")[0] == 503, patience_s=4)
    assert not readiness(worker)["loop"]
    assert scrape(worker).value("reproq_loop_age_seconds") > 1
    wait_until(lambda: get(worker, "/livez")[0] == 200)


def test_an_address_that_is_taken_ends_the_worker_with_one_clear_line(house: House) -> None:
    house.app("@task('some.type')\ndef some(payload): pass\n")
    first = measured_worker(house)
    address = first.wait_event("metrics_served")["address"]
    second = house.worker("--metrics-address", address)
    assert second.status() == 2
    assert f"can't listen on {address} for metrics: Address already in use" in second.log
    assert "Traceback" not in second.log


@pytest.mark.parametrize(("path", "status"), [("/", 404), ("/metrics?x=1", 200), ("/../etc/passwd", 404)])
def test_other_paths_are_not_found(house: House, path: str, status: int) -> None:
    worker = measured_worker(house, REPROQ_SYSTEM_PROCESSES="1")
    assert get(worker, path)[0] == status
