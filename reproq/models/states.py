"""The states of a task and the one table of what may happen to it.

The database's CHECKs and functions say the same; docs/states.md is drawn from TRANSITIONS; a test compares the three.
"""

from __future__ import annotations

import enum


class Status(enum.StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCESSFUL = "SUCCESSFUL"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class State(enum.StrEnum):
    """A status, with whether a lease is held where that makes a difference."""

    PENDING = "PENDING"
    RETRYING = "RETRYING"
    RUNNING = "RUNNING"
    STOPPING = "CANCELLED, leased"
    SUCCESSFUL = "SUCCESSFUL"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Happening(enum.StrEnum):
    CLAIM = "claim"
    SUCCEED = "finish: success"
    FAIL = "finish: failure, attempts left"
    FAIL_LAST = "finish: failure, none left or final"
    SNOOZE = "finish: snooze"
    GIVE_BACK = "give back"
    GIVE_BACK_LAST = "give back, for the last time"
    EXPIRE = "lease expires, attempts left"
    EXPIRE_LAST = "lease expires on the last attempt, begun"
    CANCEL = "cancel"
    REPLAY = "replay"


FINAL = frozenset({Status.SUCCESSFUL, Status.FAILED, Status.CANCELLED})
WAITING = frozenset({Status.PENDING, Status.RETRYING})

# What isn't listed changes nothing: the function answers `lost`, `already`, `too_late`, `not_ended`, `succeeded`.
# A give-back or a snooze of a first attempt leads to PENDING, of a later one to RETRYING: the table shows the first.
TRANSITIONS: dict[tuple[State, Happening], State] = {
    (State.PENDING, Happening.CLAIM): State.RUNNING,
    (State.RETRYING, Happening.CLAIM): State.RUNNING,
    (State.RUNNING, Happening.SUCCEED): State.SUCCESSFUL,
    (State.RUNNING, Happening.FAIL): State.RETRYING,
    (State.RUNNING, Happening.FAIL_LAST): State.FAILED,
    (State.RUNNING, Happening.SNOOZE): State.PENDING,
    (State.RUNNING, Happening.GIVE_BACK): State.PENDING,
    (State.RUNNING, Happening.GIVE_BACK_LAST): State.FAILED,
    (State.RUNNING, Happening.EXPIRE): State.RETRYING,
    (State.RUNNING, Happening.EXPIRE_LAST): State.FAILED,
    (State.RUNNING, Happening.CANCEL): State.STOPPING,
    (State.PENDING, Happening.CANCEL): State.CANCELLED,
    (State.RETRYING, Happening.CANCEL): State.CANCELLED,
    (State.STOPPING, Happening.SUCCEED): State.CANCELLED,
    (State.STOPPING, Happening.FAIL): State.CANCELLED,
    (State.STOPPING, Happening.FAIL_LAST): State.CANCELLED,
    (State.STOPPING, Happening.SNOOZE): State.CANCELLED,
    (State.STOPPING, Happening.GIVE_BACK): State.CANCELLED,
    (State.STOPPING, Happening.GIVE_BACK_LAST): State.CANCELLED,
    (State.STOPPING, Happening.EXPIRE): State.CANCELLED,
    (State.STOPPING, Happening.EXPIRE_LAST): State.CANCELLED,
    (State.FAILED, Happening.REPLAY): State.PENDING,
    (State.CANCELLED, Happening.REPLAY): State.PENDING,
}


class FailureKind(enum.StrEnum):
    """Why an attempt, and at last a task, failed."""

    RAISED = "raised"
    VALIDATION = "validation"
    NO_HANDLER = "no_handler_registered"
    TIMED_OUT = "timed_out"
    KILLED = "killed"
    OUT_OF_MEMORY = "out_of_memory"
    EXITED = "exited"
    BAD_ENVELOPE = "bad_envelope"
    BOOT_FAILED = "boot_failed"
    LEASE_EXPIRED = "lease_expired"
    INTERRUPTED = "interrupted"
    HANDLER_FAILED = "handler_failed"
    PROVIDER_REFUSED = "provider_refused"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    NOT_FOUND = "not_found"
    UNKNOWN = "unknown"


# Why a channel task failed: only the children that call providers can know.
CHANNEL_KINDS = frozenset(
    {
        FailureKind.HANDLER_FAILED,
        FailureKind.PROVIDER_REFUSED,
        FailureKind.PROVIDER_UNAVAILABLE,
        FailureKind.NOT_FOUND,
        FailureKind.UNKNOWN,
    }
)
