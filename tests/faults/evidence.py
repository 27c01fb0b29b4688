"""What a run left behind, as plain values: the ledger's lines, the database's rows and journal, the clients' notes.

All moments are nanoseconds of CLOCK_BOOTTIME; the database's clock is that of the same machine, shifted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

FINAL = ("SUCCESSFUL", "FAILED", "CANCELLED")
Execution = tuple[int, int]
"""(task, claim number)"""


@dataclass(frozen=True)
class Line:
    """Written by a handler: start, beat, effect or end of an execution."""

    kind: str
    task: int
    claim: int
    attempt: int
    ns: int
    pid: int

    @property
    def execution(self) -> Execution:
        return self.task, self.claim


@dataclass(frozen=True)
class Enqueue:
    """What a client knows of one task that it enqueued: committed, rolled_back, or unknown (the answer was lost)."""

    token: str
    outcome: str
    id: int | None = None


@dataclass(frozen=True)
class Row:
    id: int
    token: str | None
    status: str
    leased: bool
    attempts: int
    max_attempts: int
    claim: int
    result: Any = None
    kind: str | None = None


@dataclass(frozen=True)
class Step:
    """One update of a row, as a trigger of the tests saw it in the database: from one state to the next."""

    task: int
    at: int
    old: str
    new: str
    old_claim: int
    claim: int
    was_leased: bool
    is_leased: bool
    old_attempts: int
    attempts: int
    worker: str | None
    """Who held the row, or holds it now."""
    writer: str | None
    """The worker whose session wrote this; None: an application's, an operator's, or one of the test's."""
    lease_end: int | None
    """Until when the old row was leased."""

    @property
    def execution(self) -> Execution:
        return self.task, self.old_claim

    @property
    def is_claim(self) -> bool:
        return self.is_leased and self.claim != self.old_claim

    @property
    def is_release(self) -> bool:
        return self.was_leased and (not self.is_leased or self.claim != self.old_claim)

    @property
    def is_expiry(self) -> bool:
        """The lease had run out when the row was taken from its holder."""
        return self.is_release and self.lease_end is not None and self.at > self.lease_end

    @property
    def is_end(self) -> bool:
        return self.new in FINAL and self.old not in FINAL


@dataclass(frozen=True)
class Drain:
    """A worker that was asked to end: who it was, from when to when, and how it ended."""

    worker: str
    asked: int
    gone: int
    status: int


@dataclass(frozen=True)
class Body:
    """A process as the kernel shows it: descriptors and memory of a runner."""

    descriptors: int
    memory_kib: int


@dataclass(frozen=True)
class Idler:
    """A session seen idle in a transaction, and for how long."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Watch:
    """How often the sessions were looked at, in how many seconds."""

    looks: int
    seconds: float


@dataclass
class Evidence:
    lines: list[Line] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    enqueues: list[Enqueue] = field(default_factory=list)
    drains: list[Drain] = field(default_factory=list)
    idlers: list[Idler] = field(default_factory=list)
    watch: Watch = Watch(0, 0.0)
    orphans: list[str] = field(default_factory=list)
    zombies: list[str] = field(default_factory=list)
    """Below a live worker before it was asked to end, and of any worker afterwards."""
    bodies: list[tuple[Body, Body]] = field(default_factory=list)
    """Of each runner that lived on: before the faults, two seconds after the end."""

    @cached_property
    def by_execution(self) -> dict[Execution, list[Line]]:
        """The lines of each execution that a child began, in the order of time."""
        found: dict[Execution, list[Line]] = defaultdict(list)
        for line in sorted(self.lines, key=lambda line: line.ns):
            found[line.execution].append(line)
        return dict(found)

    @cached_property
    def by_task(self) -> dict[int, list[Step]]:
        found: dict[int, list[Step]] = defaultdict(list)
        for step in self.steps:
            found[step.task].append(step)
        return dict(found)

    @cached_property
    def releases(self) -> dict[Execution, list[Step]]:
        """How each execution was let go of; one entry each, if all is well."""
        found: dict[Execution, list[Step]] = defaultdict(list)
        for step in self.steps:
            if step.is_release:
                found[step.execution].append(step)
        return dict(found)

    @cached_property
    def claims(self) -> dict[Execution, Step]:
        return {(step.task, step.claim): step for step in self.steps if step.is_claim}

    @property
    def executions(self) -> int:
        return sum(any(line.kind == "start" for line in lines) for lines in self.by_execution.values())
