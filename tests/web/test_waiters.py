"""Two thousand who wait, by one connection of the database; bench/waiters.py is what docs/http.md was measured with."""

from __future__ import annotations

from bench.waiters import run


def test_two_thousand_wait_by_one_connection() -> None:
    seen = run(waiters=2000, singly=40, pace=20, burst=100)
    assert seen.connections["reproq serve: waiting"] == 1
    assert sum(seen.connections.values()) <= 2  # beside it one for short calls, at rest
    assert {name: len(found) for name, found in seen.ms.items()} == {
        "one by one": 40, "in a burst": 100, "all the rest at once": 1860,
    }  # fmt: skip
    assert sorted(seen.ms["one by one"])[20] < 1000  # a polling gateway would be beyond; how fast it is: the guide
