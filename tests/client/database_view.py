"""What the database says about the client's work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from tests.conftest import Database

TYPE = "shop.pay"


def stored(database: Database, task_id: int) -> dict[str, Any]:
    ((row,),) = database.execute("select to_jsonb(t) from queues.task_runs t where id = %s", task_id)
    return cast("dict[str, Any]", row)


def count(database: Database) -> int:
    ((number,),) = database.execute("select count(*) from queues.task_runs")
    return int(number)


def finish(database: Database, task_id: int, ending: str) -> None:
    database.execute(f"update queues.task_runs set {ending}, completed_at = now() where id = %s", task_id)


def cut_connections(database: Database) -> None:
    database.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s and application_name = %s",
        *(database.name, "reproq client"),
    )


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
