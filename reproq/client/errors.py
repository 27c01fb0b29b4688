"""What can go wrong at the application's door, split by who must act."""

from __future__ import annotations

import re
from typing import NamedTuple

from reproq.models.errors import ReproqError


class ClientError(ReproqError):
    """The base of all of them; `sqlstate` is the server's code where it spoke."""

    def __init__(self, message: str, hint: str | None = None, sqlstate: str | None = None) -> None:
        super().__init__(f"{message}. {hint[0].upper()}{hint[1:]}" if hint else message)
        self.message = message
        self.hint = hint
        self.sqlstate = sqlstate


class EnqueueRefused(ClientError):
    """Nothing was stored: the caller's values are wrong, or the login may not."""


class ConnectionLost(ClientError, ConnectionError):
    """The database can't be reached, or its answer was lost: the message says whether something may be stored."""


class UnknownTask(ClientError, LookupError):
    """No task of this id that the login may see."""


class TaskFailed(ClientError):
    """The task ended FAILED."""

    def __init__(self, task_id: int, failure_kind: str | None, last_error: str | None, attempts: int) -> None:
        tries = f"{attempts} attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(f"task {task_id} failed after {tries}, {failure_kind}: {last_error}")
        self.task_id = task_id
        self.failure_kind = failure_kind
        self.last_error = last_error
        self.attempts = attempts


class TaskCancelled(ClientError):
    """The task ended CANCELLED."""

    def __init__(self, task_id: int, reason: str | None) -> None:
        super().__init__(f"task {task_id} was cancelled" + (f": {reason}" if reason else ""))
        self.task_id = task_id
        self.reason = reason


# What the server's codes ask the caller to do, where the server gives no hint of its own.
_HINTS = {
    "42501": "GRANT reproq_app TO this login",
    "42883": "this database has no Reproq schema of this version; run `reproq migrate`",
    "3F000": "this database has no Reproq schema; run `reproq migrate`",
    "42P01": "this database has no Reproq schema; run `reproq migrate`",
}
_OWNERS = re.compile(r"permission denied for function (soft_delete|replay|replay_many|replay_as_new)\b")
_OWNERS_HINT = "an app's login may enqueue, cancel and ask; this takes the address of the owner or an administrator"
_REFUSALS = ("RQ", "22", "23", "54")  # ours; data the server can't take; constraints; too large


class _Said(NamedTuple):
    """What the server said, by way of whichever driver."""

    state: str
    message: str
    hint: str | None


def _said(error: BaseException | None) -> _Said | None:
    """The server's words, also inside SQLAlchemy's (orig) and Django's (__cause__) errors."""
    for _ in range(5):
        if error is None:
            return None
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if isinstance(state, str):
            diag = getattr(error, "diag", error)
            message = getattr(diag, "message_primary", None) or str(error).strip().partition("\n")[0]
            return _Said(state, message, getattr(diag, "message_hint", None) or getattr(diag, "hint", None))
        fields = error.args[0] if error.args else None
        if isinstance(fields, dict) and "C" in fields:  # pg8000
            return _Said(fields["C"], fields.get("M", ""), fields.get("H"))
        error = getattr(error, "orig", None) or error.__cause__
    return None


def translated(error: BaseException) -> ClientError | None:
    """Our error for a driver's, where the caller's values or rights were refused; None for everything else."""
    said = _said(error)
    if said is None:
        return _unsendable(error)
    hint = said.hint or (_OWNERS_HINT if _OWNERS.search(said.message) else _HINTS.get(said.state))
    if said.state.startswith(_REFUSALS) or said.state == "42501":
        return EnqueueRefused(said.message, hint, said.state)
    return ClientError(said.message, hint, said.state) if said.state in _HINTS else None


def _unsendable(error: BaseException) -> ClientError | None:
    """NUL and lone surrogates never leave the driver."""
    if isinstance(error, UnicodeEncodeError) or "NUL" in str(error):
        return EnqueueRefused("a text has a NUL character or a lone surrogate", "PostgreSQL can't store it; remove it")
    return None
