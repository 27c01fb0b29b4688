"""The demo's story: what is enqueued, and how each task must end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Chapter:
    """One task, what it shows, and its one right ending."""

    task_type: str
    shows: str
    payload: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    status: str = "SUCCESSFUL"
    attempts: int = 1
    failure_kind: str | None = None
    failed_with: str | None = None  # the kind of the attempt before the last one
    result: Callable[[Any], bool] = lambda _result: True
    at_least_s: float = 0.0


STORY = (
    Chapter(
        "demo.greet",
        "succeeds",
        {"name": "Ada"},
        result=lambda result: result == {"greeting": "Hello, Ada!"},
    ),
    Chapter(
        "demo.flaky_payment",
        "fails once, is retried",
        {"invoice": 7},
        attempts=2,
        failed_with="raised",
        result=lambda result: result == {"invoice": 7, "paid": True},
    ),
    Chapter(
        "demo.crash",
        "kills its own process, is retried",
        {},
        attempts=2,
        failed_with="killed",
        result=lambda result: result == {"survived": True},
    ),
    Chapter(
        "demo.nobody",
        "nobody handles this type",
        {},
        status="FAILED",
        failure_kind="no_handler_registered",
    ),
    Chapter(
        "db_function",
        "a function inside the database",
        {"task_type": "db_function", "db_function": "demo.count_to", "n": 100},
        result=lambda result: isinstance(result, dict) and result.get("sum") == 5050,
    ),
    Chapter(
        "demo.later",
        "scheduled 2 s ahead",
        {"whom": "Ada"},
        {"delay": 2.0},
        result=lambda result: result == {"reminded": "Ada"},
        at_least_s=2.0,
    ),
)

# What a user would put into a migration of their own: the worker runs it, the app may ask for it, nobody else.
SCHEMA = """
    create schema demo;
    create function demo.count_to(payload jsonb) returns jsonb language sql
        set search_path = pg_catalog, pg_temp
        return jsonb_build_object('success', true, 'payload',
            jsonb_build_object('sum', (select sum(n) from generate_series(1, (payload ->> 'n')::int) n)));
    revoke all on function demo.count_to(jsonb) from public;
    grant usage on schema demo to worker_service_user, reproq_app;
    grant execute on function demo.count_to(jsonb) to worker_service_user, reproq_app;
    select internal.allow_schema('demo');
"""


@dataclass
class Ending:
    """A chapter and how its task stands."""

    chapter: Chapter
    task_id: int
    state: dict[str, Any] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.state.get("status") in ("SUCCESSFUL", "FAILED", "CANCELLED") and not self.state["leased"]

    @property
    def is_right(self) -> bool:
        return self.is_over and not self.wrong

    @property
    def wrong(self) -> list[str]:
        """What differs from the one right ending."""
        want, got = self.chapter, self.state
        kinds = [(failure["detail"] or {}).get("kind") for failure in self.failures]
        facts = {
            "status": got.get("status") == want.status,
            "attempts": want.status != "SUCCESSFUL" or got.get("attempt_count") == want.attempts,
            "failure kind": got.get("failure_kind") == want.failure_kind,
            "failed attempts": want.failed_with is None or kinds == [want.failed_with],
            "result": want.status != "SUCCESSFUL" or want.result(got.get("result_json")),
            "time": (got.get("took_s") or 0.0) >= want.at_least_s,
        }
        return [name for name, is_right in facts.items() if not is_right]
