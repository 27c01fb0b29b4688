"""Email by Resend. The same key with the same message is one email, for a day: so a lost answer is asked for again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reproq.channels.contract import AnswerLost, Provider, SendFailed, refused, unavailable
from reproq.channels.endpoint import Answer, Endpoint
from reproq.channels.messages import Email, plain_key, read_email

_KEYS = frozenset({"missing_api_key", "invalid_api_key", "restricted_api_key"})
_LATER = frozenset({408, 409, 425})


class Resend(Provider):
    name = "resend"
    resolves_by = "resend"

    def __init__(self, api_key: str, url: str, sender: str | None) -> None:
        self._endpoint = Endpoint(url, {"Authorization": f"Bearer {api_key}"}, (api_key,))
        self.sender = sender

    def send(self, message: Mapping[str, Any], key: str, timeout_s: float) -> dict[str, Any]:
        body = json.dumps(_request(read_email(message, self.sender)), ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": plain_key(key)}
        answer = self._endpoint.post("/emails", timeout_s, body, headers)
        if not 200 <= answer.status <= 299:
            raise self._failure(answer)
        found = answer.json().get("id")
        if not isinstance(found, str) or not found:
            raise AnswerLost(self._endpoint.said("gave an answer without an id"))
        return {"provider": self.name, "provider_message_id": found}

    def close(self) -> None:
        self._endpoint.close()

    def _failure(self, answer: Answer) -> SendFailed:
        status, told = answer.status, answer.json()
        name = str(told.get("name") or "")
        said = self._endpoint.said(f"answered {status} {name}".rstrip(), told.get("message") or "")
        if status == 429 or status == 401 or name in _KEYS:
            return unavailable(said, answer.retry_after_s())
        if status >= 500 or (status in _LATER and name != "invalid_idempotent_request"):
            return refused(said, permanent=False, retry_after_s=answer.retry_after_s())
        if status < 400 or status in (404, 405) or (not name and status != 422):
            return unavailable(f"{said} (is that the API's address?)")
        return refused(said, permanent=True)


def _request(email: Email) -> dict[str, Any]:
    """The same message makes the same octets: with another body the key would be refused."""
    request: dict[str, Any] = {"from": str(email.sender), "to": str(email.to), "subject": email.subject}
    if email.html is not None:
        request["html"] = email.html
    if email.text is not None:
        request["text"] = email.text
    if email.reply_to:
        request["reply_to"] = str(email.reply_to)
    if email.headers:
        request["headers"] = dict(email.headers)
    return request
