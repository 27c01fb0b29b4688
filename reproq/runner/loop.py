"""One thread, one epoll: descriptors, timers, and calls posted from other threads. Signals only note and wake."""

from __future__ import annotations

import heapq
import itertools
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

Handler = Callable[[int], None]
READ, WRITE = select.EPOLLIN, select.EPOLLOUT


@dataclass(order=True, slots=True)
class Timer:
    at: float
    order: int
    call: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.call = None


class Loop:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._urgent = select.epoll()  # what ends a nap
        self._handlers: dict[int, Handler] = {}
        self._early: set[int] = set()
        self._timers: list[Timer] = []
        self._order = itertools.count()
        self._posted: deque[Callable[[], None]] = deque()
        self._wake, self._waker = socket.socketpair()
        for end in (self._wake, self._waker):
            end.setblocking(False)
        self.watch(self._wake.fileno(), self._drain_wakes)

    def watch(self, fd: int, handler: Handler, *, early: bool = False, calm: bool = False) -> None:
        """`early` ones are served before the others of the same turn: a child's log before its answer. `calm` ones
        don't end a nap."""
        self._handlers[fd] = handler
        if early:
            self._early.add(fd)
        self._epoll.register(fd, READ)
        if not calm:
            self._urgent.register(fd, READ)

    def want_write(self, fd: int, wanted: bool) -> None:
        self._epoll.modify(fd, READ | (WRITE if wanted else 0))

    def watch_write(self, fd: int, handler: Handler) -> None:
        self._handlers[fd] = handler
        self._epoll.register(fd, WRITE)

    def unwatch(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._early.discard(fd)
            for epoll in (self._epoll, self._urgent):
                try:
                    epoll.unregister(fd)
                except OSError:  # never there, or closed already: another thread may have a new one of the same number
                    pass

    def at(self, when: float, call: Callable[[], None]) -> Timer:
        timer = Timer(when, next(self._order), call)
        heapq.heappush(self._timers, timer)
        return timer

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        return self.at(time.monotonic() + seconds, call)

    def post(self, call: Callable[[], None]) -> None:
        """From any thread: runs in the next turn."""
        self._posted.append(call)
        try:
            self._waker.send(b"x")
        except BlockingIOError:  # so many wakes are on their way that one more changes nothing
            pass

    def wake_on(self, signals: dict[signal.Signals, Callable[[], None]]) -> None:
        """Main thread only. A signal that lands on another thread wakes the loop as well."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number, call in signals.items():
            signal.signal(number, lambda _number, _frame, call=call: self._posted.append(call))  # type: ignore[misc]

    def turn(self, patience_s: float, nap_s: float = 0.0) -> None:
        """Waits for the first thing to happen, at most `patience_s`, and serves all that have. A nap before that
        gathers what isn't urgent: each wake-up costs the children some of their time."""
        if nap_s > 0:
            self._urgent.poll(self._patience(min(patience_s, nap_s)))
            patience_s = 0
        events = self._epoll.poll(self._patience(patience_s))
        handlers, early = self._handlers, self._early
        if len(events) > 1:
            for fd, event in events:
                if fd in early:
                    handlers[fd](event)
            for fd, event in events:
                if fd not in early and (handler := handlers.get(fd)) is not None:
                    handler(event)
        elif events:
            fd, event = events[0]
            handlers[fd](event)
        if self._posted:
            self._serve_posted()
        if self._timers and self._timers[0].at <= time.monotonic():
            self._serve_timers()

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._epoll.close()
        self._urgent.close()
        self._wake.close()
        self._waker.close()

    def _patience(self, patience_s: float) -> float:
        if self._posted:
            return 0
        if not self._timers:
            return patience_s
        return max(0.0, min(patience_s, self._timers[0].at - time.monotonic()))

    def _serve_posted(self) -> None:
        for _ in range(len(self._posted)):
            self._posted.popleft()()

    def _serve_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0].at <= now:
            call = heapq.heappop(self._timers).call
            if call is not None:
                call()

    def _drain_wakes(self, _event: int) -> None:
        try:
            while self._wake.recv(4096):
                pass
        except BlockingIOError:
            pass
