"""What a provider does, and the two ways in which a send can end without an answer that says yes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from reproq.models.errors import ReproqError

VALIDATION: Final = "validation"
REFUSED: Final = "provider_refused"
UNAVAILABLE: Final = "provider_unavailable"

_LONGEST = 500
_SHORTEST_SECRET = 4  # a shorter one would blank out ordinary words
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


class SendFailed(ReproqError):
    """Nothing was accepted."""

    def __init__(self, kind: str, message: str, *, permanent: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.permanent = permanent
        self.retry_after_s = retry_after_s


class AnswerLost(ReproqError):
    """The message may have been accepted; nobody here knows. It must not be sent again blindly."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Provider(Protocol):
    name: str
    # How a lost answer is resolved: "resend" (the same message with the same key can't become a second one),
    # "lookup" (ask with find), "park" (a person decides).
    resolves_by: str
    sender: str | None  # of messages that name none

    def send(self, message: Mapping[str, Any], key: str, timeout_s: float) -> dict[str, Any]:
        """{"provider": name, "provider_message_id": …}, or SendFailed, or AnswerLost."""
        ...

    def find(self, message: Mapping[str, Any], since: float, timeout_s: float) -> dict[str, Any] | None:
        """The answer to a send that began at `since` (unix time), None if there is none. SendFailed: couldn't look."""
        raise TypeError(f"{self.name} can't be asked for a message")

    def close(self) -> None: ...


def invalid(message: str) -> SendFailed:
    return SendFailed(VALIDATION, message, permanent=True)


def refused(message: str, *, permanent: bool, retry_after_s: float | None = None) -> SendFailed:
    return SendFailed(REFUSED, message, permanent=permanent, retry_after_s=retry_after_s)


def unavailable(message: str, retry_after_s: float | None = None) -> SendFailed:
    return SendFailed(UNAVAILABLE, message, retry_after_s=retry_after_s)


def one_line(said: object, secrets: Iterable[str] = ()) -> str:
    """Words of a server or a library, as an error may hold them: they may quote what we sent, keys included."""
    text = str(said)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    text = _BLANKS.sub(" ", text).strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
