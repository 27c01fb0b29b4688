"""Waiting for results; cancel, delete, replay."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from reproq.client import (
    Client,
    TaskCancelled,
    TaskFailed,
    UnknownTask,
)
from tests.client.database_view import TYPE, cut_connections, finish, stored
from tests.conftest import Database
from tests.worker.proxy import Proxy


def test_a_result_is_waited_for(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.result, task_id, 20)
        finish(database, task_id, """status = 'SUCCESSFUL', result_json = '{"paid": 1e400}'""")
        assert waiting.result(20)["paid"] > 10**300


def test_a_failed_task_raises_with_the_reason(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE)
    finish(
        database, task_id, "status = 'FAILED', failure_kind = 'raised', last_error = 'ValueError: x', attempt_count = 1"
    )
    with pytest.raises(TaskFailed, match="failed after 1 attempt, raised: ValueError: x") as caught:
        client.result(task_id)
    assert (caught.value.failure_kind, caught.value.attempts) == ("raised", 1)


def test_a_cancelled_task_raises_with_the_reason(client: Client) -> None:
    task_id = client.enqueue(TYPE)
    assert client.cancel(task_id, "not needed") == "cancelled"
    with pytest.raises(TaskCancelled, match="not needed"):
        client.result(task_id, timeout=5)


def test_a_cancelled_task_that_is_still_stopping_is_waited_for(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE)
    database.execute("select queues.claim('w/1/x', null, null, '1 hour', 1)")
    assert client.cancel(task_id) == "stopping"
    with pytest.raises(TimeoutError, match="CANCELLED"):
        client.result(task_id, timeout=0.05)


def test_a_result_that_takes_too_long_is_a_time_out(client: Client) -> None:
    task_id = client.enqueue(TYPE)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=f"task {task_id} isn't over yet: status PENDING"):
        client.result(task_id, timeout=timedelta(milliseconds=100))
    assert 0.1 <= time.monotonic() - began < 5
    with pytest.raises(TimeoutError):
        client.result(task_id, timeout=0)


def test_waiting_survives_a_database_that_goes_away(client: Client, database: Database) -> None:
    task_id = client.enqueue(TYPE)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.result, task_id, 30)
        for _ in range(5):
            cut_connections(database)
        finish(database, task_id, "status = 'SUCCESSFUL', result_json = '7'")
        assert waiting.result(30) == 7


def test_a_time_out_holds_though_the_server_says_nothing_any_more(database: Database) -> None:
    proxy = Proxy(database)
    with closing(proxy), Client(database.app_dsn.replace(f":{database.server.port}/", f":{proxy.port}/")) as client:
        task_id = client.enqueue(TYPE)
        proxy.go_deaf()
        for _connection in ("open", "new"):
            with pytest.raises(TimeoutError, match="unreachable database"):
                client.result(task_id, timeout=0.2)


@pytest.mark.parametrize("task_id", [0, -1, 2**63, "7", None, True, 999])
def test_an_id_that_is_none_is_an_unknown_task(refused: Client, task_id: Any) -> None:
    with pytest.raises(UnknownTask):
        refused.result(task_id, timeout=5)
    with pytest.raises(LookupError):
        refused.status(task_id)


def test_delete_and_replay_answer_in_words(client: Client, database: Database) -> None:
    failed, waiting = client.enqueue(TYPE), client.enqueue(TYPE)
    finish(database, failed, "status = 'FAILED', failure_kind = 'raised', attempt_count = 3")
    with Client(database.dsn) as operator:
        assert operator.replay(failed)
        assert operator.delete(waiting, "twice")
    assert stored(database, failed)["status"] == "PENDING"
    assert stored(database, waiting)["delete_reason"] == "twice"


def test_stopping_the_wait_leaves_a_usable_client(client: Client, database: Database) -> None:
    stop = threading.Event()
    task_id = client.enqueue(TYPE)
    with ThreadPoolExecutor(4) as pool:
        waits = [pool.submit(client.result, task_id, 0.2) for _ in range(4)]
        stop.set()
        for wait in waits:
            assert isinstance(wait.exception(20), TimeoutError)
    assert client.status(task_id).status == "PENDING"
