"""What wakes the loop, and what waits until it looks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from reproq.runner.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_nap_is_not_ended_by_what_is_calm_and_serves_it_afterwards(
    loop: Loop, ends: tuple[socket.socket, socket.socket]
) -> None:
    served: list[str] = []
    loop.watch(ends[0].fileno(), lambda _event: served.append("calm"), calm=True)
    ends[1].send(b"x")
    loop.after(0.02, lambda: served.append("timer"))
    loop.turn(60, nap_s=60)  # only the timer ends it
    assert served == ["calm", "timer"]


def test_what_is_urgent_ends_a_nap(loop: Loop, ends: tuple[socket.socket, socket.socket]) -> None:
    served: list[str] = []
    loop.watch(ends[0].fileno(), lambda _event: served.append("urgent"))
    ends[1].send(b"x")
    loop.turn(60, nap_s=60)
    assert served == ["urgent"]


def test_a_call_from_another_thread_ends_a_nap(loop: Loop) -> None:
    served: list[str] = []
    poster = threading.Thread(target=lambda: loop.post(lambda: served.append("posted")))
    poster.start()
    loop.turn(60, nap_s=60)
    poster.join()
    assert served == ["posted"]


def test_without_a_nap_what_is_calm_wakes_the_loop(loop: Loop, ends: tuple[socket.socket, socket.socket]) -> None:
    served: list[str] = []
    loop.watch(ends[0].fileno(), lambda _event: served.append("calm"), calm=True)
    ends[1].send(b"x")
    loop.turn(60)
    assert served == ["calm"]


def test_what_is_watched_no_more_is_served_no_more(loop: Loop, ends: tuple[socket.socket, socket.socket]) -> None:
    served: list[str] = []
    loop.watch(ends[0].fileno(), lambda _event: served.append("urgent"))
    loop.unwatch(ends[0].fileno())
    ends[1].send(b"x")
    loop.turn(0, nap_s=0.001)
    assert not served
