"""One execution of a task, as its worker sees it: (id, claim_no) and what happens to it."""

from __future__ import annotations

import enum


class End(enum.Enum):
    """Why the runner ends a child in the middle of a task."""

    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    DRAINED = "drained"
    BAD_ENVELOPE = "bad_envelope"


class Execution:
    __slots__ = (
        "attempt", "begun", "child_key", "claim_no", "claimed_at", "confirmed", "deadline", "end", "handed_at", "id",
        "idempotency_key", "max_attempts", "over", "payload", "queue_name", "task_type", "timeout_s", "trace",
        "waited_s", "weight",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        claim_no: int,
        task_type: str,
        queue_name: str,
        payload: str,
        attempt: int,
        max_attempts: int,
        timeout_s: float | None,
        idempotency_key: str | None,
    ) -> None:
        self.id = id
        self.claim_no = claim_no
        self.task_type = task_type
        self.queue_name = queue_name
        self.payload = payload  # JSON text, never parsed by the parent
        self.weight = len(payload)  # bytes that it costs the worker: the payload's, then the answer's
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.timeout_s = timeout_s
        self.idempotency_key = idempotency_key
        self.waited_s = 0.0  # from its due time to its claim, by the database's clock; known where it is measured
        self.trace: str | None = None  # where a child wants it
        self.claimed_at = 0.0  # monotonic
        self.handed_at = 0.0  # monotonic; 0: no child has seen it
        self.deadline = 0  # CLOCK_BOOTTIME, ns: until then the lease is ours for sure
        self.begun = False  # a child has it, or had it
        self.confirmed = False  # its start is committed (needed on a last attempt)
        self.child_key: str | None = None  # who has it
        self.over = False  # its outcome is known and on its way to the database
        self.end: End | None = None

    @property
    def is_last_attempt(self) -> bool:
        return self.attempt >= self.max_attempts
