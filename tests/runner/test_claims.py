"""What a worker remembers from claim to claim."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from reproq.models.execution import Execution
from reproq.queue.claim import Claimed, Scope
from reproq.runner.claims import Claims
from reproq.runner.leases import boottime_ns

HINTS = b'{"took_ms": 0.4}'
SLOW = b'{"took_ms": 3000.0}'
_MOST_AT, _HINTS_AT = 4, 5  # among the parameters of the call


class Pool:
    """A station that wants so many."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.next_claim_at = 0.0
        self.waiting = 0
        self.traces = False
        self.pause_s = 0.0

    def want(self, _leave_unknown: bool) -> dict[str, Any]:
        return {"free": self.free}

    def count(self, now: float) -> None: ...
    def wake(self) -> None: ...
    def got(self, count: int, wanted: int, now: float, poll_s: float) -> None:
        self.next_claim_at = now + self.pause_s


class Office:
    """Claims, with what they sent."""

    def __init__(self, *pools: Pool) -> None:
        self.sent: list[Any] = []
        self.leased_at: list[int] = []
        self.most = 0
        taker = SimpleNamespace(
            take=lambda found: {pools[0]: len(found)},
            nothing_found=lambda: None,
            congested=lambda: False,
            room=lambda: 1 << 26,
        )
        self.claims = Claims(
            cast(Any, SimpleNamespace(idle=True, send=lambda errand, **_how: self.sent.append(errand))),
            Scope(b"w", None, None),
            cast(Any, SimpleNamespace(lease_s=30.0, poll_interval_s=1.0, leave_unknown=False)),
            cast(
                Any,
                SimpleNamespace(
                    add=lambda _found, at_ns: self.leased_at.append(at_ns), all=dict, are_sure=lambda: True
                ),
            ),
            cast(Any, [*pools]),
            cast(Any, taker),
        )

    def claim(
        self,
        *,
        found: int,
        hints: bytes = HINTS,
        sent_ns: int = 0,
        later_s: float = 0,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> bytes | None:
        """One claim that finds so many; the hints that it took along."""
        self.sent.clear()
        self.claims.turn(time.monotonic() + later_s)
        errand = self.sent.pop(0)
        errand.sent_ns = sent_ns or boottime_ns()
        executions = [Execution(n, 1, "t", "default", "{}", 1, 3, None, None) for n in range(found)]
        meanwhile()
        self.most = int(errand.call.params[_MOST_AT])
        errand.done(Claimed(executions, hints))
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


def test_what_an_empty_claim_has_learned_is_known_on() -> None:
    """How long a look takes above all: an idle worker would look from the heads again and again."""
    office = Office(Pool(500))
    office.claim(found=0, hints=SLOW)
    assert office.claim(found=0) == SLOW


def test_a_notification_makes_one_claim_look() -> None:
    office = Office(Pool(500))
    office.claim(found=500)
    office.claims.wake()
    assert orjson.loads(office.claim(found=500) or b"") == {"took_ms": 0.4, "look": True}
    assert office.claim(found=500) == HINTS


def test_a_pool_that_looked_and_found_nothing_leaves_the_look_to_the_others() -> None:
    app, system = Pool(500), Pool(2)
    office = Office(app, system)
    office.claim(found=500)
    app.free = 0
    office.claims.wake()
    assert b"look" in (office.claim(found=0) or b"")
    app.free = 500
    assert b"look" in (office.claim(found=0) or b"")
    assert b"look" not in (office.claim(found=0) or b"")


def test_a_claim_for_leases_that_ran_out_doesnt_take_the_look_of_a_notification_away() -> None:
    pool = Pool(0)
    office = Office(pool)
    office.claims.wake()
    office.claim(found=0)
    pool.free = 500
    office.claim(found=500)
    assert b"look" not in (office.claim(found=500) or b"")
    pool.free = 0
    office.claims.wake()
    assert office.claim(found=0, later_s=6) == HINTS
    pool.free = 500
    assert b"look" in (office.claim(found=500) or b"")


def test_a_pool_that_finds_nothing_lies_down_beside_one_that_is_at_work_but_not_where_that_takes_long() -> None:
    """To lie down the database looks at all that is scheduled. With an old snapshot that took two seconds each time,
    after which the other pool got as much as two children can do."""
    for hints, lies_down in (HINTS, True), (SLOW, False):
        app, system = Pool(500), Pool(2)
        office = Office(app, system)
        office.claim(found=2, hints=hints)
        app.free = 0
        office.claim(found=0, hints=hints)
        assert (len(office.sent) == 1) is lies_down
    app.free = 500
    office.claim(found=0, hints=SLOW)
    assert len(office.sent) == 1  # none is at work


def test_a_pool_that_may_not_lie_down_yet_asks_again_when_it_may() -> None:
    """With a poll interval of a minute it would sleep without a mark."""
    app, system = Pool(500), Pool(2)
    office = Office(app, system)
    office.claim(found=2, hints=SLOW)
    app.free = 0
    system.pause_s = 60
    office.claim(found=0, hints=SLOW)
    assert 0 < system.next_claim_at - time.monotonic() <= 1


def test_whose_claim_got_lost_doesnt_count_on_its_sleep_mark() -> None:
    office = Office(Pool(2))
    office.claim(found=0)
    office.sent.pop().done(None)  # it has lain down
    office.claim(found=0)
    assert office.sent == []
    office.claims.wake()
    office.claims.turn(time.monotonic())
    office.sent.pop().lost()
    office.sent.pop().done(0)
    office.claim(found=0)
    assert len(office.sent) == 1


def test_a_notification_doesnt_make_a_worker_forget_what_falls_due() -> None:
    pool = Pool(2)
    pool.pause_s = 3600
    office = Office(pool)
    office.claim(found=0)
    office.sent.pop().done(3.0)
    pool.next_claim_at = 0
    office.claims.wake()
    office.claim(found=0)
    assert office.sent == []
    assert 2 < office.claims.turn(time.monotonic()) <= 3


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
