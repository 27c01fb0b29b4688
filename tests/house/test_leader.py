"""At most one leader at any instant of the database's clock; another one soon after it is gone."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import psycopg
import pytest

from reproq.db.connect import connect
from tests.conftest import Database
from tests.worker.harness import House, wait_until


def lead(database: Database, worker: str, lease: str = "1 hour") -> tuple[int | None, float]:
    ((term, left),) = database.execute("select * from queues.lead(%s, %s)", worker, lease)
    return term, left


def end_lease(database: Database) -> None:
    database.execute("update queues.leader set until = clock_timestamp() - interval '1 ms'")


def test_of_sixteen_candidates_one_leads_a_hundred_times(database: Database) -> None:
    gate = Barrier(16, action=lambda: end_lease(database))

    def run(number: int) -> list[int | None]:
        terms: list[int | None] = []
        with connect(database.worker_dsn, name="test") as connection:
            for _ in range(100):
                gate.wait(60)
                row: Any = connection.execute(
                    "select term from queues.lead(%s, '1 hour')", (f"w/{number}/boot",)
                ).fetchone()
                terms.append(row[0])
                gate.wait(60)
        return terms

    with ThreadPoolExecutor(16) as pool:
        rounds = list(zip(*pool.map(run, range(16)), strict=True))
    leaders = [[term for term in terms if term is not None] for terms in rounds]
    assert [len(terms) for terms in leaders] == [1] * 100
    terms = [each for (each,) in leaders]
    assert terms == sorted(set(terms))


def test_the_leader_keeps_its_term_and_others_learn_when_to_ask_again(database: Database) -> None:
    assert lead(database, "w/1/a", "10 s") == (1, 10)
    assert lead(database, "w/1/a", "10 s") == (1, 10)
    term, left = lead(database, "w/2/b", "10 s")
    assert term is None
    assert 5 < left <= 10


def test_the_term_grows_with_every_change_and_when_the_same_one_is_late(database: Database) -> None:
    assert lead(database, "w/1/a")[0] == 1
    end_lease(database)
    assert lead(database, "w/1/a")[0] == 2
    end_lease(database)
    assert lead(database, "w/2/b")[0] == 3


def test_a_call_under_an_old_term_does_nothing(database: Database) -> None:
    old, _ = lead(database, "w/1/a")
    end_lease(database)
    new, _ = lead(database, "w/2/b")
    database.execute("select queues.put_schedule('s', 't', every => '1 hour')")
    database.execute("update queues.schedules set next_slot = now()")
    assert database.execute("select queues.keep_house(%s)", old) == [(None,)]
    assert database.execute("select count(*) from queues.task_runs") == [(0,)]
    assert database.execute("select queues.keep_house(%s)", new)[0][0]["slots_enqueued"] == 1


def test_a_takeover_waits_for_a_chore_that_is_under_way(database: Database) -> None:
    term, _ = lead(database, "w/1/a")
    chore, rival = database.connect(), database.connect()
    rival.execute("set lock_timeout = '200ms'")
    with chore.transaction():
        chore.execute("select queues.keep_house(%s)", (term,))
        with pytest.raises(psycopg.errors.LockNotAvailable):  # as if the lease ended in the middle of the chore
            rival.execute("update queues.leader set until = clock_timestamp()")


@pytest.mark.parametrize("worker", [None, "", "w", "w/1", "//"])
def test_a_leader_has_a_whole_name(database: Database, worker: str | None) -> None:
    with pytest.raises(psycopg.Error, match="a leader needs a worker id"):
        database.execute("select queues.lead(%s, '10 s')", worker)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_another_worker_leads_within_the_lease_and_a_second(house: House, ending: signal.Signals) -> None:
    flags = ("--lease", "3s", "--heartbeat", "1s")
    house.app("@task('t')\ndef t(payload, ctx): return 1\n")
    workers = [house.worker(*flags).ready() for _ in range(3)]
    leads = "select count(*) from queues.workers where leads"
    wait_until(lambda: house.one(leads) == 1, house.story)
    leader = next(worker for worker in workers if worker.events("leading"))
    os.kill(leader.pid, ending)
    gone = time.monotonic()
    others = [worker for worker in workers if worker is not leader]
    wait_until(lambda: any(worker.events("leading") for worker in others), house.story)
    assert time.monotonic() - gone < 3 + 1 + 0.5  # half a second for the machine
    task = house.final(house.enqueue("t"))  # and tasks run, whoever leads
    assert task["status"] == "SUCCESSFUL"


def test_without_a_leader_tasks_run_and_expired_leases_are_reclaimed(house: House) -> None:
    house.sql("update queues.leader set worker_id = 'somebody/1/else', until = now() + interval '1 hour'")
    house.app("@task('t')\ndef t(payload, ctx): return 1\n")
    lost = house.enqueue("t")
    house.sql("select queues.claim('dead/1/x', null, null, '1 second', 1, null, null)")
    worker = house.worker("--lease", "3s", "--heartbeat", "1s").ready()
    assert house.final(lost)["status"] == "SUCCESSFUL"
    assert not worker.events("leading")
    assert worker.stop() == 0


def test_a_leader_that_leaves_in_order_makes_room_at_once(house: House) -> None:
    worker = house.worker("--lease", "300s", "--heartbeat", "10s", REPROQ_SYSTEM_PROCESSES="1")
    worker.wait_event("leading")
    assert worker.stop() == 0
    assert house.one("select until <= clock_timestamp() from queues.leader")
