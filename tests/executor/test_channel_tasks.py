"""What a channel task does when an earlier execution called the provider and nobody knows the answer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from reproq.executor.channel_tasks import ChannelTasks

ORDER = {"worker_id": "w", "id": 7, "claim_no": 2, "payload": {}, "deadline_s": None, "idempotency_key": "k"}
HOUR = 3600


class Provider:
    name = "test"
    sender: str | None = None

    def __init__(self, resolves_by: str) -> None:
        self.resolves_by = resolves_by
        self.asked: list[str] = []

    def send(self, _message: object, _key: str, _timeout_s: float) -> dict[str, Any]:
        self.asked.append("send")
        return {"provider_message_id": "m1"}

    def find(self, _message: object, _since: float, _timeout_s: float) -> dict[str, Any]:
        self.asked.append("find")
        return {"provider_message_id": "m1"}

    def close(self) -> None: ...


class Database:
    """Knows of a call that began so long ago, and takes everything."""

    def __init__(self, age_s: float) -> None:
        self._since = time.time() - age_s

    def ask(self, statement: str, *_values: str, once: bool = False) -> Any:
        if statement == "begin_channel":
            return {"state": "begun", "since": self._since, "outcome": {"success": True, "payload": {"to": "a@b.c"}}}
        return {"channel_result": "kept"}.get(statement, {"success": True})


@pytest.mark.parametrize(
    ("resolves_by", "age_s", "asked"),
    [
        ("resend", 22.9 * HOUR, ["send"]),
        ("resend", 23.1 * HOUR, []),
        ("lookup", 1, ["find"]),
        ("lookup", 48 * HOUR, ["find"]),
        ("park", 1, []),
    ],
)
def test_only_what_can_not_send_twice_is_done(resolves_by: str, age_s: float, asked: list[str]) -> None:
    provider = Provider(resolves_by)
    answer = ChannelTasks(Database(age_s), provider).answer(ORDER)
    assert provider.asked == asked
    assert answer["success"] == bool(asked)
    if not asked:
        assert answer["kind"] == "unknown"
