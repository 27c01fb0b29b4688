"""Connections are kept, replaced, shared between threads, and never sent a statement twice blindly."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from reproq.client import (
    Client,
    ConnectionLost,
)
from tests.client.database_view import TYPE, count, cut_connections, finish, wait_until
from tests.conftest import Database


def test_a_connection_is_kept_for_the_next_call(client: Client, database: Database) -> None:
    for _ in range(5):
        client.enqueue(TYPE)
    ((sessions,),) = database.execute(
        "select count(*) from pg_stat_activity where datname = %s and application_name = 'reproq client'", database.name
    )
    assert sessions == 1


def test_a_connection_that_the_server_closed_between_two_calls_is_replaced(client: Client, database: Database) -> None:
    first = client.enqueue(TYPE)
    cut_connections(database)
    assert client.enqueue(TYPE) > first
    assert count(database) == 2


def lock_table(database: Database) -> psycopg.Connection[Any]:
    holder = psycopg.connect(database.dsn)
    holder.execute("lock table queues.task_runs in access exclusive mode")
    return holder


def is_waiting(database: Database, calls: int = 1) -> bool:
    ((waiting,),) = database.execute(
        "select count(*) from pg_stat_activity where datname = %s and application_name = 'reproq client' "
        "and wait_event_type = 'Lock'",
        database.name,
    )
    return bool(waiting == calls)


def waits_since(database: Database) -> object:
    """When the call that waits now began."""
    rows = database.execute(
        "select query_start from pg_stat_activity where datname = %s and application_name = 'reproq client' "
        "and wait_event_type = 'Lock'",
        database.name,
    )
    return rows[0][0] if rows else None


def test_a_connection_that_breaks_before_the_answer_is_never_repeated_blindly(
    client: Client, database: Database
) -> None:
    with ThreadPoolExecutor(1) as pool, lock_table(database) as holder:
        call = pool.submit(client.enqueue, TYPE, {})
        wait_until(lambda: is_waiting(database))
        cut_connections(database)
        with pytest.raises(ConnectionLost, match="may or may not have been stored"):
            call.result(20)
        holder.rollback()
    assert count(database) == 0


def test_an_enqueue_with_a_key_is_repeated_after_a_broken_connection(client: Client, database: Database) -> None:
    with ThreadPoolExecutor(1) as pool, lock_table(database) as holder:
        call = pool.submit(client.enqueue, TYPE, {}, idempotency_key="k")
        wait_until(lambda: is_waiting(database))
        cut_connections(database)
        holder.rollback()
        assert call.result(20) > 0
    assert count(database) == 1


def test_a_call_whose_repetition_is_lost_too_may_be_made_again_and_a_wait_does_so(
    client: Client, database: Database
) -> None:
    task_id = client.enqueue(TYPE)
    with ThreadPoolExecutor(2) as pool, lock_table(database) as holder:
        wait, status = pool.submit(client.result, task_id, 30), pool.submit(client.status, task_id)
        for _ in range(2):
            wait_until(lambda: is_waiting(database, 2))
            cut_connections(database)
        with pytest.raises(ConnectionLost, match=r"no answer came .* can be repeated safely"):
            status.result(20)
        holder.rollback()
        finish(database, task_id, "status = 'SUCCESSFUL', result_json = '7'")
        assert wait.result(30) == 7


def test_whoever_presses_ctrl_c_while_a_call_waits_stores_nothing(database: Database) -> None:
    script = (
        "import sys; from reproq import Client; c = Client(sys.argv[1])\n"
        "try: c.enqueue('a')\nexcept KeyboardInterrupt: print('interrupted', c.enqueue('b') > 0)"
    )
    with lock_table(database) as holder:
        command = [sys.executable, "-c", script, database.app_dsn]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:
            wait_until(lambda: is_waiting(database))
            first = waits_since(database)
            caller.send_signal(signal.SIGINT)
            wait_until(lambda: waits_since(database) not in (first, None))
            holder.rollback()
            assert caller.communicate(timeout=30)[0].strip() == "interrupted True"
    assert database.execute("select task_type::text from queues.task_runs") == [("b",)]


def test_a_client_is_shared_by_many_threads(client: Client, database: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda n: client.enqueue(TYPE, {"n": n}), range(200)))
    assert len(set(ids)) == 200
    rows = database.execute("select id, (payload_json->>'n')::int from queues.task_runs")
    assert dict(rows) == {task_id: n for n, task_id in enumerate(ids)}


def test_a_forked_process_uses_no_connection_of_its_parent(database: Database) -> None:
    script = (
        "import os, sys; from reproq import Client; c = Client(sys.argv[1]); c.enqueue('a')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    c.enqueue('b'); c.close(); os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0; c.enqueue('c'); c.close()"
    )
    subprocess.run([sys.executable, "-c", script, database.app_dsn], check=True, timeout=60)
    assert count(database) == 3


def test_importing_the_client_loads_no_driver() -> None:
    script = (
        "import sys, reproq.client; print([m for m in ('psycopg', 'pydantic', 'orjson', 'click') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"
