"""A queue with the functions of its operator: pauses, limits, tasks that wait for others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Database
from tests.queue.conftest import Claimed, Queue


class Flow(Queue):
    def pause_queue(self, name: str, paused: bool = True) -> str:
        return str(self.value("select queues.pause_queue(%s, %s)", name, paused))

    def pause_type(self, name: str, paused: bool = True) -> str:
        return str(self.value("select queues.pause_type(%s, %s)", name, paused))

    def limit(self, scope: str, name: str, concurrency: int | None = None, **more: object) -> str:
        places = "".join(f", {key} => %s" for key in more)
        sql = f"select queues.put_limit(%s, %s, %s{places})"
        return str(self.value(sql, scope, name, concurrency, *more.values()))

    def types(self, found: list[Claimed]) -> list[str]:
        return [row.row["task_type"] for row in found]

    def waiting(self, task_id: int) -> int:
        return int(self.task(task_id)["waiting_for"])

    def sweep(self) -> None:
        self.rows("update internal.flow set swept_at = '-infinity'")
        self.rows("select internal.sweep_keys()")

    def hints(self, found: list[Claimed]) -> Any:
        return found[-1].row["next_hints"]


@pytest.fixture
def flow(database: Database) -> Iterator[Flow]:
    flow = Flow(database)
    yield flow
    flow.admin.close()
