"""What a channel task does when an earlier execution called the provider and nobody knows the answer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from reproq.executor.channel_tasks import ChannelTasks

ORDER = {"worker_id": "w", "id": 7, "claim_no": 2, "payload": {}, "deadline_s": None, "idempotency_key": "k"}


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
    """Knows of a call that began, and takes everything."""

    def __init__(self, key_may_be_forgotten: bool) -> None:
        self._state = {"state": "begun", "since": time.time() - 60, "key_may_be_forgotten": key_may_be_forgotten}

    def ask(self, statement: str, *_values: str, once: bool = False) -> Any:
        if statement == "begin_channel":
            return self._state | {"outcome": {"success": True, "payload": {"to": "a@b.c"}}}
        return {"channel_result": "kept"}.get(statement, {"success": True})


@pytest.mark.parametrize(
    ("resolves_by", "forgotten", "asked"),
    [
        ("resend", False, ["send"]),
        ("resend", True, []),
        ("lookup", False, ["find"]),
        ("lookup", True, ["find"]),
        ("park", False, []),
    ],
)
def test_only_what_can_not_send_twice_is_done(resolves_by: str, forgotten: bool, asked: list[str]) -> None:
    provider = Provider(resolves_by)
    answer = ChannelTasks(Database(forgotten), provider).answer(ORDER)
    assert provider.asked == asked
    assert answer["success"] == bool(asked)
    if not asked:
        assert answer["kind"] == "unknown"
