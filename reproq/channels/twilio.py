"""SMS by Twilio. It knows no idempotency key, so a lost answer is looked up in the account's list of messages."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from reproq.channels.contract import AnswerLost, Provider, SendFailed, refused, unavailable
from reproq.channels.endpoint import Answer, Endpoint
from reproq.channels.messages import Sms, read_sms

_SERVICE = re.compile(r"MG[0-9a-fA-F]{32}")
_TRIAL = "Sent from your Twilio trial account - "  # what a trial account puts before each body
# Of the account or the address, not of the message: authentication, not active, not found.
_ACCOUNT = frozenset({20003, 20005, 20404})
_PAGE = 100
_PAGES = 5
_CLOCKS_S = 5.0  # dates are whole seconds, and of Twilio's clock


class Twilio(Provider):
    name = "twilio"
    resolves_by = "lookup"

    def __init__(self, account_sid: str, auth_token: str, url: str, sender: str | None) -> None:
        login = base64.b64encode(f"{account_sid}:{auth_token}".encode()).decode("ascii")
        self._endpoint = Endpoint(url, {"Authorization": f"Basic {login}"}, (auth_token, login))
        self._path = f"/2010-04-01/Accounts/{account_sid}/Messages.json"
        self.sender = sender

    def send(self, message: Mapping[str, Any], key: str, timeout_s: float) -> dict[str, Any]:
        sms = read_sms(message, self.sender)
        form = {"To": sms.to, _sender_name(sms): sms.sender, "Body": sms.body}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self._endpoint.post(self._path, timeout_s, urlencode(form).encode("ascii"), headers)
        if not 200 <= answer.status <= 299:
            raise self._failure(answer)
        if not (sid := _sid(answer.json())):
            raise AnswerLost(self._endpoint.said("gave an answer without a sid"))
        return {"provider": self.name, "provider_message_id": sid}

    def find(self, message: Mapping[str, Any], since: float, timeout_s: float) -> dict[str, Any] | None:
        sms = read_sms(message, self.sender)
        try:
            found = [entry for entry in self._listed(sms, since, time.monotonic() + timeout_s) if _is(entry, sms)]
        except AnswerLost as lost:  # nothing is lost by asking again
            raise unavailable(lost.message) from None
        # Of several the oldest: it is next to the moment at which the send began.
        return {"provider": self.name, "provider_message_id": _sid(found[-1])} if found else None

    def close(self) -> None:
        self._endpoint.close()

    def _listed(self, sms: Sms, since: float, ends: float) -> Iterator[dict[str, Any]]:
        """Newest first. Not filtered by date_sent: a message that still waits to be sent may have none."""
        by_sender = {} if _SERVICE.fullmatch(sms.sender) else {"From": sms.sender}
        path = f"{self._path}?{urlencode({'To': sms.to, **by_sender, 'PageSize': _PAGE})}"
        for _ in range(_PAGES):
            answer = self._endpoint.get(path, ends - time.monotonic())
            if answer.status != 200 or not isinstance(entries := answer.json().get("messages"), list):
                raise unavailable(self._endpoint.said(f"answered {answer.status} to a look for a message"))
            for entry in (entry for entry in entries if isinstance(entry, dict)):
                if (created := _created(entry)) is not None and created >= since - _CLOCKS_S:
                    yield entry
            following = answer.json().get("next_page_uri")
            if not following or all((_created(entry) or 0) < since - _CLOCKS_S for entry in entries):
                return
            path = _path_of(str(following))

    def _failure(self, answer: Answer) -> SendFailed | AnswerLost:
        status, told = answer.status, answer.json()
        code = told.get("code") if isinstance(told.get("code"), int) else None
        said = self._endpoint.said(f"answered {status}" + (f" code {code}" if code else ""), told.get("message") or "")
        if status >= 500 and status != 503:
            return AnswerLost(said)
        if status in (401, 429) or code in _ACCOUNT:
            return unavailable(said, answer.retry_after_s())
        if status in (408, 409, 425, 503):
            return refused(said, permanent=False, retry_after_s=answer.retry_after_s())
        if status < 400 or status in (404, 405) or code is None:
            return unavailable(f"{said} (are TWILIO_API_URL and TWILIO_ACCOUNT_SID right?)")
        return refused(said, permanent=True)


def _path_of(link: str) -> str:
    """Of a link in an answer only path and query: it can't lead the keys elsewhere."""
    try:
        parts = urlsplit(link)
    except ValueError:
        parts = urlsplit("")
    path = f"/{parts.path.lstrip('/')}?{parts.query}"
    if not re.fullmatch(r"[!-~]+", path):
        raise unavailable("the next page of the account's messages has an impossible address")
    return path


def _sender_name(sms: Sms) -> str:
    return "MessagingServiceSid" if _SERVICE.fullmatch(sms.sender) else "From"


def _sid(entry: Mapping[str, Any]) -> str:
    sid = entry.get("sid")
    return sid if isinstance(sid, str) else ""


def _created(entry: Any) -> float | None:
    try:
        return parsedate_to_datetime(entry["date_created"]).timestamp()
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _is(entry: Mapping[str, Any], sms: Sms) -> bool:
    by_service = _SERVICE.fullmatch(sms.sender)
    body = str(entry.get("body") or "").removeprefix(_TRIAL)
    return (
        bool(_sid(entry))
        and str(entry.get("direction")) != "inbound"
        and body.strip() == sms.body.removeprefix(_TRIAL).strip()
        and (not by_service or entry.get("messaging_service_sid") == sms.sender)
    )
