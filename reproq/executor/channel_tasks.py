"""An email or SMS task: before-handler, provider, success or error handler. Never a blind second send.

Three commits surround the call of the provider: the before-handler's with the mark that the call is about to be made;
then what the provider answered, alone; then the handler that records it. Killed anywhere between, the task's supervisor
(or the next execution, for a task without one) finds how far it came. The task itself is finished by the runner.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, Protocol

import psycopg

from reproq.channels import AnswerLost, Provider, SendFailed
from reproq.db.errors import first_line

_PROVIDER_S = 60.0
_OUR_WORDS = ("validation", "handler_failed", "not_found")
_CODE = re.compile(r"\b[2-5]\d\d\b(?: [a-z_]+)?")
_HANDLER_PAUSES_S = (0.1, 0.4, 1.5, 3.0)

Answer = dict[str, Any]


class Asks(Protocol):
    def ask(self, statement: str, *values: str, once: bool = False) -> Any: ...


class ChannelTasks:
    def __init__(self, session: Asks, provider: Provider) -> None:
        self._session = session
        self._provider = provider
        self._about = json.dumps(
            {"provider": provider.name, "resolves_by": provider.resolves_by, "sender": provider.sender}
        )

    def answer(self, order: Mapping[str, Any]) -> Answer:
        try:
            begun = self._session.ask("begin_channel", *_fence(order), _payload(order), self._about, once=True)
        except (
            psycopg.OperationalError
        ) as exc:  # whether the mark was committed is unknown; the provider was not called
            return self._failed(order, SendFailed("provider_unavailable", f"database: {first_line(exc)}"))
        if begun["state"] == "lost":
            return {"success": False, "error": "the lease was lost before the provider was called"}
        if begun["state"] == "answered":
            return self._succeeded(order, begun["answer"])
        outcome = begun["outcome"]
        if not outcome["success"]:
            return self._failed(order, _refusal(outcome))
        return self._call(order, outcome["payload"], begun)

    def _call(self, order: Mapping[str, Any], message: Any, state: Mapping[str, Any]) -> Answer:
        try:
            result = self._deliver(order, message, state)
        except SendFailed as failure:
            return self._failed(order, failure)
        except AnswerLost as lost:
            return self._failed(order, SendFailed("unknown", str(lost)))
        if self._session.ask("channel_result", *_fence(order), json.dumps(result)) == "lost":
            return {
                "success": False,
                "error": "the lease was lost while the provider was called; its answer was dropped",
            }
        return self._succeeded(order, result)

    def _deliver(self, order: Mapping[str, Any], message: Any, state: Mapping[str, Any]) -> dict[str, Any]:
        """`since` in the state: an execution called the provider then, and nobody knows what became of it."""
        begun_before = state.get("since")
        if not isinstance(message, dict):
            raise SendFailed("validation", "the before-handler answered without a message", permanent=True)
        since = (message.get("lookup") or {}).get("since")
        if since is None and begun_before is not None:
            if not self._may_ask_again(state):
                raise AnswerLost("an earlier execution called the provider, and nobody knows what it answered")
            since = begun_before if self._provider.resolves_by == "lookup" else None
        timeout_s = min(_PROVIDER_S, (order["deadline_s"] or _PROVIDER_S) * 0.8)
        if since is None:
            return self._provider.send(message, message.get("key") or order["idempotency_key"], timeout_s)
        found = self._provider.find(message, since, timeout_s)
        if found is None:
            raise SendFailed("not_found", "the provider has no such message", permanent=begun_before is not None)
        return found

    def _may_ask_again(self, state: Mapping[str, Any]) -> bool:
        if self._provider.resolves_by == "resend":
            return not state["key_may_be_forgotten"]
        return self._provider.resolves_by == "lookup"

    def _succeeded(self, order: Mapping[str, Any], result: dict[str, Any]) -> Answer:
        for pause in (*_HANDLER_PAUSES_S, None):
            outcome = self._session.ask(
                "channel_succeeded", *_fence(order), _payload(order), self._about, json.dumps(result)
            )
            if outcome["success"]:
                return {"success": True, "payload": result}
            if outcome["kind"] == "validation" or pause is None:
                break
            time.sleep(pause)
        return {
            "success": False,
            "kind": "handler_failed",
            "final": True,
            "error": f"accepted by the provider, but the success handler failed: {outcome['error']}",
        }

    def _failed(self, order: Mapping[str, Any], failure: SendFailed) -> Answer:
        summary = _summary(failure)
        error = {
            "kind": failure.kind,
            "message": failure.message,
            "permanent": failure.permanent,
            "retry_after_s": failure.retry_after_s,
        }
        self._session.ask("channel_failed", *_fence(order), _payload(order), self._about, json.dumps(error), summary)
        if failure.kind == "validation":
            return {"success": False, "validation_failure_message": summary}
        final = failure.permanent or (failure.kind == "unknown" and self._provider.resolves_by == "park")
        answer: Answer = {"success": False, "kind": failure.kind, "error": summary, "final": final}
        return answer | ({} if failure.retry_after_s is None else {"retry_in_s": failure.retry_after_s})


def _fence(order: Mapping[str, Any]) -> tuple[str, str, str]:
    return order["worker_id"], str(order["id"]), str(order["claim_no"])


def _payload(order: Mapping[str, Any]) -> str:
    return json.dumps(order["payload"])


def _refusal(outcome: Mapping[str, Any]) -> SendFailed:
    """A before-handler that says the message is no good is final; one that fails may do better the next time."""
    if outcome["kind"] == "validation":
        return SendFailed("validation", outcome["error"], permanent=True)
    return SendFailed("handler_failed", f"the before-handler failed: {outcome['error']}")


def _summary(failure: SendFailed) -> str:
    """What may stand in the queue: the provider's own words may hold addresses, and stay with the message."""
    _server, _, said = failure.message.partition(" ")
    code = _CODE.search(said)
    if failure.kind in _OUR_WORDS or (failure.kind == "provider_unavailable" and code is None):
        return failure.message
    return f"{failure.kind} {code[0]}" if code else failure.kind
