"""What a worker remembers from claim to claim."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reproq.models.execution import Execution
from reproq.queue.claim import Claimed, Scope
from reproq.runner.claims import Claims
from reproq.runner.leases import boottime_ns

HINTS = b'{"took_ms": 0.4}'
_HINTS_AT = 5  # among the parameters of the call


class Pool:
    """A station that wants so many."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.next_claim_at = 0.0
        self.waiting = 0
        self.traces = False

    def want(self, _leave_unknown: bool) -> dict[str, Any]:
        return {"free": self.free}

    def count(self, now: float) -> None: ...
    def wake(self) -> None: ...
    def got(self, count: int, wanted: int, now: float, poll_s: float) -> None: ...


class Office:
    """Claims, with what they sent."""

    def __init__(self, *pools: Pool) -> None:
        self.sent: list[Any] = []
        self.leased_at: list[int] = []
        taker = SimpleNamespace(
            take=lambda found: {pools[0]: len(found)},
            nothing_found=lambda: None,
            congested=lambda: False,
            room=lambda: 1 << 26,
        )
        self.claims = Claims(
            cast(Any, SimpleNamespace(idle=True, send=self.sent.append)),
            Scope(b"w", None, None),
            cast(Any, SimpleNamespace(lease_s=30.0, poll_interval_s=1.0, leave_unknown=False)),
            cast(Any, SimpleNamespace(add=lambda _found, at_ns: self.leased_at.append(at_ns))),
            cast(Any, [*pools]),
            cast(Any, taker),
        )

    def claim(self, *, found: int, hints: bytes = HINTS, sent_ns: int = 0) -> bytes | None:
        """One claim that finds so many; the hints that it took along."""
        self.sent.clear()
        self.claims.turn(time.monotonic())
        errand = self.sent.pop(0)
        errand.sent_ns = sent_ns
        executions = [Execution(n, 1, "t", "default", "{}", 1, 3, None, None) for n in range(found)]
        errand.done(Claimed(executions, hints if found else None))
        return cast("bytes | None", errand.call.params[_HINTS_AT])


@pytest.fixture(autouse=True)
def foreign_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reproq.runner.claims.not_ours", lambda _stations: [])


def test_a_pool_that_finds_nothing_leaves_the_others_where_they_are() -> None:
    """Once a second a pool without work asks. To look from the heads again would cost the others seconds, where an old
    snapshot keeps dead entries there."""
    app, system = Pool(500), Pool(2)
    office = Office(app, system)
    assert office.claim(found=500) is None
    app.free = 0
    assert office.claim(found=0) == HINTS
    app.free = 500
    assert office.claim(found=500) == HINTS


def test_a_worker_that_finds_nothing_at_all_looks_from_the_heads_again() -> None:
    office = Office(Pool(500), Pool(2))
    office.claim(found=500)
    assert office.claim(found=0) == HINTS
    assert office.claim(found=500) is None


def test_a_lease_begins_when_the_claim_has_looked_for_work_and_not_when_it_was_sent() -> None:
    """A look at a bloated index takes longer than a lease lasts: what it finds would go back, to be found again."""
    office = Office(Pool(500))
    sent_ns = boottime_ns() - 40 * 10**9
    office.claim(found=1, hints=b'{"at": "2026-01-01", "took_ms": 35000.0, "before_ms": 35001.5}', sent_ns=sent_ns)
    assert office.leased_at == [sent_ns + 35_001_500_000]


def test_a_database_whose_clock_is_set_meanwhile_moves_no_lease_out_of_the_time_of_the_claim() -> None:
    office = Office(Pool(500))
    sent_ns = boottime_ns() - 10**9
    office.claim(found=1, hints=b'{"before_ms": 3600000}', sent_ns=sent_ns)
    assert sent_ns + 10**9 <= office.leased_at[0] <= boottime_ns()
    office.claim(found=1, hints=b'{"before_ms": -3600000}', sent_ns=sent_ns)
    assert office.leased_at[1] == sent_ns


def test_hints_that_say_nothing_of_it_let_the_lease_begin_when_the_claim_was_sent() -> None:
    office = Office(Pool(500))
    office.claim(found=1, sent_ns=77)
    assert office.leased_at == [77]
