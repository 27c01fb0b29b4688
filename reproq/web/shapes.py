"""What callers send. The one place: bodies are checked by these, and the OpenAPI document shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from reproq.tickets import LONGEST_S

MAX_WAIT_S = 60
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$"
PROCESS = r"^[A-Za-z_][A-Za-z0-9_]{0,62}\.[A-Za-z_][A-Za-z0-9_]{0,62}$"
IDEMPOTENCY_KEY = r"^[!-~]([ -~]{0,498}[!-~])?$"
_DAY = r"((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-9]))"
MOMENT = (
    rf"^(19[7-9][0-9]|[2-8][0-9]{{3}})-{_DAY}"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])$"
)

# Fifteen digits: more would be kept as text on its way through JSON.
Id = Annotated[int, Field(ge=1, le=10**15 - 1)]
Seconds = Annotated[int, Field(ge=1, le=LONGEST_S)]
Key = Annotated[str, Field(min_length=1, max_length=500)]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, title=None)


class TaskBody(Shape):
    """A task to be stored. Only its type is needed."""

    task_type: Annotated[str, Field(pattern=NAME, max_length=200)]
    payload: dict[str, Any] = Field(default_factory=dict, description="what the task gets: any JSON object")
    queue_name: Annotated[str, Field(pattern=NAME, max_length=100)] = "default"
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000, description="higher runs first")] = 0
    scheduled_at: Annotated[str, Field(pattern=MOMENT, description="not before; RFC 3339 with a time zone")] | None = (
        None
    )
    delay: Annotated[float, Field(ge=0, le=10**9, description="not before so many seconds from now")] | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100_000)] | None = None
    timeout: Annotated[float, Field(ge=0.001, le=31_622_400, description="seconds of one attempt")] | None = None
    unique_among: Literal["active", "waiting"] | None = None
    after: Annotated[list[Id], Field(max_length=1000, description="tasks that must be over first")] | None = None
    after_policy: Literal["succeeded", "over"] = "succeeded"
    limit_key: Key | None = None
    trace: Annotated[str, Field(max_length=1000)] | None = None
    ticket: Annotated[Seconds, Field(description="also answer a ticket, good for so many seconds")] | None = None

    @model_validator(mode="after")
    def one_time(self) -> TaskBody:
        if self.scheduled_at is not None and self.delay is not None:
            raise ValueError("scheduled_at and delay contradict each other; give one of them")
        return self


class CancelBody(Shape):
    reason: Annotated[str, Field(max_length=2000, description="stored with the task")] | None = None


class TicketBody(Shape):
    """Exactly the task or process that a browser is to see."""

    id: Id
    process: Annotated[str, Field(pattern=PROCESS, description="schema.process; left out: a task")] | None = None
    expires_in: Seconds = 300
