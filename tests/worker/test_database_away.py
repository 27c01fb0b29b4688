"""The database goes away: the worker waits for it, finished work is recorded once, nothing runs twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from reproq.db.embedded import UNSAFE_AND_FAST, EmbeddedServer
from tests.conftest import Database
from tests.worker.harness import House, is_alive, wait_until
from tests.worker.proxy import Proxy

APP = """
@task("marks", backoff_base=0.05)
def marks(payload, ctx: Context):
    with open(HERE + "/ran", "a") as file:
        file.write(f"{ctx.id}\\n")
    with open(HERE + "/pid", "w") as file:
        file.write(str(os.getpid()))
    while payload.get("waits") and not os.path.exists(HERE + "/go"):
        time.sleep(0.01)
    return ctx.claim_no
"""


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


@pytest.fixture
def proxy(house: House) -> Iterator[Proxy]:
    proxy = Proxy(house.database)
    yield proxy
    proxy.close()


def runs(house: House) -> list[int]:
    path = house.mark("ran")
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def end_sessions(house: House) -> int:
    sessions = (
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name like 'reproq %%' and application_name <> 'reproq house' and datname = %s"
    )
    return len(house.sql(sessions, house.database.name))


def test_a_worker_whose_sessions_are_ended_goes_on_and_runs_nothing_twice(house: House) -> None:
    task_id = house.enqueue("marks", {"waits": True})
    worker = house.worker().ready()
    house.wait_mark("pid")
    for count in (1, 2, 3):
        wait_until(lambda: end_sessions(house) >= 3, "three sessions to end")
        worker.wait_event("heartbeat_late", count=count)
        worker.wait_event("database_back", count=3 * count)
    house.mark("go").touch()
    assert house.final(task_id)["result_json"] == 1
    ids = house.enqueue_many("marks", [{}] * 20)
    house.finals(ids)
    assert sorted(runs(house)) == sorted([task_id, *ids])
    assert worker.stop() == 0


def test_sessions_that_end_all_the_time_lose_and_double_no_task(house: House) -> None:
    ids = house.enqueue_many("marks", [{}] * 600)
    worker = house.worker("--processes", "2").ready()
    done = "select count(*) from queues.task_runs where status = 'SUCCESSFUL'"

    def all_done() -> bool:
        end_sessions(house)
        return bool(house.one(done) == len(ids))

    wait_until(all_done, lambda: f"{house.one(done)} of {len(ids)}: {worker.log}", every_s=0.25)
    assert sorted(runs(house)) == sorted(ids)
    assert {row[0] for row in house.sql("select distinct attempt_count from queues.task_runs")} == {1}
    wait_until(lambda: house.leased() == 0, "no lease")
    assert worker.stop() == 0


def test_a_finish_whose_answer_was_lost_is_sent_again_and_was_recorded_before(house: House, proxy: Proxy) -> None:
    worker = house.worker(dsn=proxy.dsn).ready()
    house.final(house.enqueue("marks"))
    proxy.swallow(b"queues.finish(")
    task_id = house.enqueue("marks")
    assert proxy.swallowed.wait(30)
    worker.wait_event("finish_repeated", task_id=task_id)
    row = house.final(task_id)
    assert (row["status"], row["result_json"], row["claim_no"]) == ("SUCCESSFUL", 1, 1)
    assert runs(house).count(task_id) == 1
    assert worker.stop() == 0


def test_a_claim_whose_answer_was_lost_goes_back_uncounted_and_is_run_soon(house: House, proxy: Proxy) -> None:
    worker = house.worker("--lease", "300s", dsn=proxy.dsn).ready()
    house.final(house.enqueue("marks"))
    ids: list[int] = []
    while not worker.events("claim_failed"):  # the answer that is lost may be that of a claim that found nothing
        house.asleep()
        proxy.swallow(b"queues.claim(")
        ids.append(house.enqueue("marks", max_attempts=1))
        assert proxy.swallowed.wait(30)
        house.final(ids[-1])
        assert len(ids) < 30, "no claim with rows was ever lost"
    for task_id in ids:
        row = house.final(task_id)
        assert (row["status"], row["attempt_count"]) == ("SUCCESSFUL", 1)
    assert sorted(runs(house)[1:]) == sorted(ids)


def test_a_start_whose_answer_was_lost_is_sent_again(house: House, proxy: Proxy) -> None:
    worker = house.worker(dsn=proxy.dsn).ready()
    house.final(house.enqueue("marks"))
    proxy.swallow(b"queues.start(")
    task_id = house.enqueue("marks", max_attempts=1)
    assert proxy.swallowed.wait(30)
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"]) == ("SUCCESSFUL", 1)
    assert runs(house).count(task_id) == 1
    assert worker.stop() == 0


def test_a_network_that_says_nothing_ends_the_children_before_the_lease_and_the_worker_comes_back(
    house: House, proxy: Proxy
) -> None:
    task_id = house.enqueue("marks", {"waits": True})
    worker = house.worker("--lease", "4s", "--heartbeat", "1s", dsn=proxy.dsn).ready()
    child = int(house.wait_mark("pid"))
    proxy.go_deaf()
    wait_until(lambda: not is_alive(child), "the end of the child")
    until, now = house.sql("select leased_until, clock_timestamp() from queues.task_runs where id = %s", task_id)[0]
    assert now < until
    proxy.hear_again()
    house.mark("go").touch()
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"]) == ("SUCCESSFUL", 2)
    assert worker.process.poll() is None
    assert worker.stop() == 0


def test_a_finish_waits_as_long_as_it_takes_for_a_server_that_refuses(house: House, proxy: Proxy) -> None:
    """The result is kept, though the children must end when the lease does."""
    task_id = house.enqueue("marks", {"waits": True})
    worker = house.worker("--lease", "60s", dsn=proxy.dsn).ready()
    house.wait_mark("pid")
    proxy.refusing = True
    proxy.cut()
    worker.wait_event("database_lost")
    house.mark("go").touch()
    worker.wait_event("database_late")
    assert house.row(task_id)["status"] == "RUNNING"
    proxy.refusing = False
    row = house.final(task_id)
    assert (row["status"], row["claim_no"], runs(house)) == ("SUCCESSFUL", 1, [task_id])


def test_a_result_that_waits_for_longer_than_its_lease_is_recorded_whichever_connection_comes_back_first(
    house: House, proxy: Proxy
) -> None:
    """A claim takes back leases that ran out: not those of its own worker, whose heartbeat would be accepted."""
    task_id = house.enqueue("marks", {"waits": True}, max_attempts=1)
    worker = house.worker("--lease", "3s", dsn=f"{proxy.dsn}?sslmode=disable&gssencmode=disable").ready()
    house.wait_mark("pid")
    proxy.refusing = True
    proxy.cut()
    worker.wait_event("database_lost")
    house.mark("go").touch()
    is_over = "select leased_until < clock_timestamp() from queues.task_runs where id = %s"
    wait_until(lambda: house.sql(is_over, task_id)[0][0], "the end of the lease")
    proxy.only, proxy.refusing = b"reproq claims", False
    wait_until(lambda: any("claims" in e["message"] for e in worker.events("database_back")), "claims to be back")
    others = proxy.turned_away
    wait_until(lambda: proxy.turned_away >= others + 4, "the others to be turned away")
    proxy.only = b""
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"], row["claim_no"]) == ("SUCCESSFUL", 1, 1)


@pytest.fixture
def own_house(tmp_path: Path) -> Iterator[House]:
    """On a server of its own, which the test may stop."""
    with EmbeddedServer(tmp_path / "server", settings=UNSAFE_AND_FAST) as server:
        server.install(say=lambda _: None)
        database = Database(server, "reproq")
        house = House(database, tmp_path)
        house.app(APP)
        yield house
        house.close()
        database.close()


def test_a_server_that_is_restarted_and_one_that_crashes_are_waited_for(own_house: House) -> None:
    house = own_house
    server = house.database.server
    task_id = house.enqueue("marks", {"waits": True})
    worker = house.worker("--lease", "120s").ready()
    house.wait_mark("pid")
    child = int(house.mark("pid").read_text())
    house.database.close()
    server.stop()
    worker.wait_event("database_late")
    assert worker.process.poll() is None
    assert is_alive(child)
    server.start()
    wait_until(house.reconnect, "the server to be back")
    house.mark("go").touch()
    row = house.final(task_id)
    assert (row["status"], row["claim_no"]) == ("SUCCESSFUL", 1)
    house.mark("go").unlink()
    ids = house.enqueue_many("marks", [{"waits": True}] * 3)
    wait_until(lambda: len(runs(house)) == 2, "the next to begin")
    os.kill(house.one("select pg_backend_pid()"), 9)  # the server ends all sessions and recovers
    wait_until(house.reconnect, "the server to recover")
    house.mark("go").touch()
    assert {row["claim_no"] for row in house.finals(ids)} <= {1, 2}
    assert sorted(runs(house)) == sorted([task_id, *ids])
    assert worker.stop() == 0


def test_a_worker_that_holds_nothing_is_stopped_soon_though_the_database_went_away_in_the_middle_of_a_claim(
    house: House, proxy: Proxy
) -> None:
    """Nobody knows what became of that claim, and the status says so."""
    worker = house.worker("--lease", "120s", dsn=proxy.dsn).ready()
    house.final(house.enqueue("marks"))
    house.asleep()
    proxy.refusing = True
    proxy.swallow(b"queues.claim(")
    assert proxy.swallowed.wait(30)
    proxy.cut()
    worker.wait_event("database_late")
    worker.send(signal.SIGTERM)
    assert worker.status(20) == 1
