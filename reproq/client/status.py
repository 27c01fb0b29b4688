"""A task as the application sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reproq.client.errors import TaskCancelled, TaskFailed


@dataclass(frozen=True, slots=True)
class TaskStatus:
    id: int
    task_type: str
    queue_name: str
    status: str
    result_json: Any
    error_json: Any
    last_error: str | None
    failure_kind: str | None
    attempt_count: int
    max_attempts: int
    leased: bool
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None

    @property
    def is_over(self) -> bool:
        """CANCELLED with a lease still held means that its code is still being stopped."""
        return self.status in ("SUCCESSFUL", "FAILED", "CANCELLED") and not self.leased

    def result(self) -> Any:
        """The result of a task that is over. Raises TaskFailed or TaskCancelled."""
        if self.status == "FAILED":
            raise TaskFailed(self.id, self.failure_kind, self.last_error, self.attempt_count)
        if self.status == "CANCELLED":
            raise TaskCancelled(self.id, self.last_error)
        return self.result_json


# In the order of the fields above.
STATUS = """
    select task_id, task_type, queue_name, status, result_json, error_json, last_error, failure_kind, attempt_count,
           max_attempts, leased, created_at, started_at, completed_at
    from queues.task_status(%s::text::bigint)
"""
