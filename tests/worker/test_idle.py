"""A worker that has nothing to do: it wakes at once, finds what nobody announced, and costs next to nothing."""

from __future__ import annotations

import statistics
import time
from typing import Any

import pytest

from tests.worker.harness import House, wait_until
from tests.worker.proxy import Proxy

APP = """
@task("now")
def now(payload):
    return time.time()
"""


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def latency_ms(house: House, committed: float, task_id: int) -> float:
    return float(house.final(task_id)["result_json"] - committed) * 1000


def test_a_sleeping_worker_starts_a_committed_task_in_milliseconds(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    house.worker("--poll-interval", "30s").ready()
    house.final(house.enqueue("now"))
    taken = []
    for _ in range(8):
        house.asleep()
        settled(house)
        task_id = house.enqueue("now")
        taken.append(latency_ms(house, time.time(), task_id))
    with capsys.disabled():
        print(f" [wake-up: median {statistics.median(taken):.1f} ms, worst {max(taken):.1f} ms]", end="")
    assert statistics.median(taken) < 200
    assert max(taken) < 5000


def settled(house: House) -> None:
    """Wait until the worker has looked for the last time before its long sleep."""
    claims = (
        "select 1 from pg_stat_activity where application_name = 'reproq claims' and datname = %s"
        " and state = 'idle' and clock_timestamp() - query_start > interval '400 ms'"
    )
    wait_until(lambda: house.sql(claims, house.database.name), "a quiet worker")


def test_a_transaction_that_was_open_while_the_worker_lay_down_wakes_it_or_is_found_by_polling(house: House) -> None:
    connection = house.database.connect("app")
    connection.execute("begin")
    cursor: Any = connection.execute("select queues.enqueue('now')")  # nobody sleeps yet: it announces nothing
    (task_id,) = cursor.fetchone()
    house.worker("--poll-interval", "2s").ready()
    house.asleep()
    settled(house)
    connection.execute("commit")
    assert latency_ms(house, time.time(), task_id) < 4000


def test_a_task_that_nobody_announces_is_found_by_the_next_poll(house: House) -> None:
    house.worker("--poll-interval", "1s").ready()
    house.final(house.enqueue("now"))
    house.asleep()
    settled(house)
    task_id = house.one(
        "insert into queues.task_runs (task_type, payload_json, spec_hash, max_attempts)"
        " values ('now', '{}', queues.spec_hash('now', 'default', '{}'), 3) returning id"
    )
    assert latency_ms(house, time.time(), task_id) < 3500


def in_s(house: House, seconds: float) -> tuple[Any, float]:
    """A moment by the database's clock, and its now as a number."""
    due, now = house.sql(
        "select n + %s * interval '1 second', extract(epoch from n) from clock_timestamp() n", seconds
    )[0]
    return due, float(now)


def test_a_task_that_is_scheduled_while_the_worker_sleeps_is_found_by_the_poll_after_it_is_due(house: House) -> None:
    house.worker("--poll-interval", "1s").ready()
    house.final(house.enqueue("now"))
    house.asleep()
    settled(house)
    due, asked = in_s(house, 1.5)
    task_id = house.enqueue("now", scheduled_at=due)
    late = house.final(task_id)["result_json"] - asked - 1.5
    assert -0.01 < late < 2.5


def test_a_task_that_was_scheduled_before_the_worker_lay_down_runs_when_it_is_due(house: House) -> None:
    due, asked = in_s(house, 3)
    task_id = house.enqueue("now", scheduled_at=due)
    house.worker("--poll-interval", "60s").ready()
    late = house.final(task_id)["result_json"] - asked - 3
    assert -0.01 < late < 1.5


def test_a_retry_runs_when_it_is_due_though_the_poll_interval_is_long(house: House) -> None:
    house.app(
        "@task('again')\ndef again(payload, ctx: Context):\n"
        "    if ctx.attempt == 1: raise Retry(in_=1)\n    return time.time()\n"
    )
    house.worker("--poll-interval", "60s").ready()
    task_id = house.enqueue("again")
    row = house.final(task_id)
    failed = house.history(task_id)[0]["created_at"].timestamp()
    assert 0.9 < row["result_json"] - failed < 3


def test_a_worker_is_woken_for_its_own_queues_and_types_only(house: House) -> None:
    worker = house.worker("--poll-interval", "30s", "--queue", "mine", "--type-prefix", "now").ready()
    house.final(house.enqueue("now", queue_name="mine"))
    house.asleep()
    settled(house)
    before = transactions(house)
    for _ in range(50):
        house.enqueue("now", queue_name="other")
        house.enqueue("later", queue_name="mine")
    wait_until(lambda: transactions(house) >= before + 100, "the server to count the enqueues")
    claims = (
        "select clock_timestamp() - query_start from pg_stat_activity"
        " where application_name = 'reproq claims' and datname = %s"
    )
    assert house.one(claims, house.database.name).total_seconds() > 0.3
    assert worker.process.poll() is None


def transactions(house: House) -> int:
    house.sql("select pg_stat_force_next_flush()")
    return int(
        house.one("select xact_commit + xact_rollback from pg_stat_database where datname = %s", house.database.name)
    )


def test_an_idle_worker_asks_the_database_at_most_twice_a_second(house: House) -> None:
    """With the default poll interval and heartbeat, system children and all."""
    proxy = Proxy(house.database)
    try:
        house.worker("--system-processes", "1", dsn=proxy.dsn).ready()
        house.final(house.enqueue("now"))
        house.asleep()
        settled(house)
        before, began = proxy.asked, time.monotonic()
        wait_until(lambda: time.monotonic() - began >= 6, "six seconds", every_s=0.5)
        rate = (proxy.asked - before) / (time.monotonic() - began)
        assert 0 < rate <= 2
    finally:
        for worker in house.workers:
            worker.end()
        proxy.close()


def test_an_idle_worker_uses_hardly_any_processor_time(house: House) -> None:
    worker = house.worker().ready()
    house.final(house.enqueue("now"))
    house.asleep()
    settled(house)

    def used_s() -> float:
        fields = worker_stat(worker.pid)
        return (int(fields[11]) + int(fields[12])) / 100

    before, began = used_s(), time.monotonic()
    wait_until(lambda: time.monotonic() - began >= 4, "four seconds", every_s=0.5)
    assert used_s() - before < 0.2


def worker_stat(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()
