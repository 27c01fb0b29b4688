"""Sends that stand where a test wants them, by the calls that a worker makes."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import Database

WORKER = "host/1/boot"
ABOUT = json.dumps({"provider": "smtp", "resolves_by": "park"})


def send(database: Database, **options: object) -> int:
    names = "".join(f", {name} => %s" for name in options)
    statement = f"select comms.send_email('ann@example.org', 'Hello', text_body => 'Hello.'{names})"
    return int(database.execute(statement, *options.values())[0][0])


def supervise(database: Database, number: int) -> dict[str, Any]:
    payload = json.dumps({"send_email_task_id": number})
    answer: dict[str, Any] = database.execute("select comms.send_email_supervisor(%s)", payload)[0][0]
    return answer


def claim(database: Database) -> list[dict[str, Any]]:
    rows = database.execute(
        "select to_jsonb(c) from queues.claim(%s, null, null, '1 minute', 100, null, null) c", WORKER
    )
    return [row for (row,) in rows]


def begin(database: Database, number: int) -> dict[str, Any]:
    """Claim the send's attempt and run its before-handler; returns the task."""
    task = next(row for row in claim(database) if row["payload_json"].get("attempt_id"))
    assert task["payload_json"]["send_email_task_id"] == number
    database.execute("select internal.begin_channel(%s, %s, %s, %s, %s)", *fence(task), ABOUT)
    return task


def fail(database: Database, task: dict[str, Any], message: str = "451 later", *, permanent: bool = True) -> None:
    error = json.dumps({"kind": "provider_refused", "message": message, "permanent": permanent})
    summary = "provider_refused 451"
    call = "select internal.channel_failed(%s, %s, %s, %s, %s, %s, %s)"
    database.execute(call, *fence(task), ABOUT, error, summary)
    end = {"id": task["id"], "claim_no": task["claim_no"], "success": False, "error": summary}
    end |= {"kind": "provider_refused", "detail": {"output": "connecting\nrefused"}}
    database.execute("select queues.finish(%s, %s)", WORKER, json.dumps([end]))


def lose(database: Database, task: dict[str, Any]) -> None:
    """The worker dies after the call began, and its lease is over."""
    database.execute(
        "update queues.task_runs set status = 'FAILED', failure_kind = 'lease_expired', leased_until = null,"
        " completed_at = clock_timestamp() where id = %s",
        task["id"],
    )


def fence(task: dict[str, Any]) -> tuple[object, ...]:
    return WORKER, task["id"], task["claim_no"], json.dumps(task["payload_json"])
