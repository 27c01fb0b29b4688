"""Who gets which task: claimed tasks on their way to the children, and back again if they must."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from reproq.executor.members import Child
from reproq.executor.order import Orders
from reproq.log import Event, say
from reproq.models.execution import End, Execution
from reproq.models.states import FailureKind
from reproq.runner.books import Books
from reproq.runner.crew import Station

_LONGEST_NAP_S = 0.02  # so much later are the answers of children looked at that want for nothing


class Handout:
    def __init__(self, books: Books, stations: list[Station], worker_id: str, most_weight: int) -> None:
        self._books = books
        self._most_weight = most_weight
        self._stations = stations
        self._app_orders = Orders(worker_id.rpartition("/")[0])
        self._system_orders = Orders(worker_id)
        self._route: dict[str, Station | None] = {}
        self.deep: set[Child] = set()  # children with lines that wait in their socket
        self._long_at = math.inf  # when the first of them may have waited too long
        self.watch_time: Callable[[Child, Execution], None] = lambda _child, _execution: None

    def forget_routes(self) -> None:
        """The types have changed."""
        self._route.clear()

    def take_back_all(self) -> None:
        for child in list(self.deep):
            self.take_back(child)

    def take(self, executions: list[Execution]) -> dict[Station, int]:
        """Fresh from a claim. Answers how many each station got."""
        now = time.monotonic()
        shares: dict[Station, int] = {}
        for execution in executions:
            execution.claimed_at = now
            station = self._station_for(execution.task_type)
            share_of = station or self._stations[-1]  # what nobody knows came with what the last one serves: the rest
            shares[share_of] = shares.get(share_of, 0) + 1
            if station is None:
                self._refuse(execution)
                continue
            (station.unconfirmed if execution.is_last_attempt else station.ready).append(execution)
        for station in shares:
            self._books.confirm(station)
            self.hand_out(station)
        return shares

    def hand_out(self, station: Station) -> None:
        """Every idle child gets a task; short tasks may wait in the children's sockets behind others."""
        if self._is_flooded():
            return
        ready, idle = station.ready, station.pool.idle
        while ready and idle:
            self._give(station, idle.popleft(), ready.popleft())
        if ready and station.depth > 1:
            for child in station.pool.children.values():
                if child.lines:
                    self._deepen(station, child)
        if not ready and station.unconfirmed:
            self._books.confirm(station)

    def goes_on(self, child: Child, execution: Execution) -> None:
        """It has answered, and runs what waited in its socket."""
        self.begins(child, execution)
        station = child.station
        if station.is_steady and station.ready and not station.pool.idle and not self._is_flooded():
            self._deepen(station, child)

    def _is_flooded(self) -> bool:
        """There are more answers than the database takes: none are added."""
        return self._books.finishes.weight > self._most_weight

    def _deepen(self, station: Station, child: Child) -> None:
        ready, pool = station.ready, station.pool
        share = min(station.depth, 1 + math.ceil(len(ready) / len(pool.children)))
        if len(child.lines) * 2 > share:
            return
        for _ in range(min(share - len(child.lines), pool.room(child), len(ready))):
            if not self._give(station, child, ready.popleft()):
                break
        if len(child.lines) > 1:
            self.deep.add(child)
            self._long_at = min(self._long_at, self._turns_long_at(child))

    def look_after_deep(self, now: float) -> float:
        """A task that takes long must not keep others waiting behind it. Answers when to look again, in seconds."""
        fed = self._feed_idle()
        if now >= self._long_at:
            self._long_at = math.inf
            for child in list(self.deep):
                if len(child.lines) < 2:
                    self.deep.discard(child)
                elif self._turns_long_at(child) > now:
                    self._long_at = min(self._long_at, self._turns_long_at(child))
                elif self.take_back(child):
                    fed = True
        return 0.0 if fed else self._long_at - now

    def _feed_idle(self) -> bool:
        """Takes lines back that wait behind tasks of milliseconds or more while another child has nothing to do."""
        fed = False
        for station in self._stations:
            hungry = 0 if station.is_short or station.ready else len(station.pool.idle)
            for child in [child for child in self.deep if child.station is station] if hungry else ():
                if hungry > 0 and len(child.lines) > 1:
                    hungry -= len(self.take_back(child))
                    fed = True
        return fed

    def nap_s(self) -> float:
        """How long nobody needs us: every child that has anything to do has lines for longer."""
        nap, busy = _LONGEST_NAP_S, False
        for station in self._stations:
            if station.unconfirmed or station.confirming:
                return 0.0
            fewest = min((len(child.lines) for child in station.pool.children.values() if child.lines), default=0)
            if fewest:
                if not station.is_steady or fewest == 1 or station.pool.idle:
                    return 0.0
                busy = True
                nap = min(nap, (fewest - 1) * station.least_s / 2)
        return nap if busy else 0.0

    @staticmethod
    def _turns_long_at(child: Child) -> float:
        station: Station = child.station
        return child.lines[0].handed_at + station.long_s

    def take_back(self, child: Child) -> list[Execution]:
        """What a child has not begun waits for another one."""
        self.deep.discard(child)
        taken = child.pool.take_back(child)
        child.shallow = True
        self.put_in_front(child, taken)
        running = child.execution
        if running is not None and not running.begun:  # it read on, past what was taken back
            self.begins(child, running)
        if taken and not child.lines:
            child.shallow = False
            child.pool.release(child)
        return taken

    def put_in_front(self, child: Child, taken: list[Execution]) -> None:
        for execution in reversed(taken):
            execution.begun = False
            execution.child_key = None
            if execution.end is End.DRAINED:  # as it was thought to run
                execution.end = None
            child.station.ready.appendleft(execution)

    def _station_for(self, task_type: str) -> Station | None:
        try:
            return self._route[task_type]
        except KeyError:
            station = next((s for s in self._stations if s.serves(task_type)), None)
            if len(self._route) < 10_000:
                self._route[task_type] = station
            return station

    def _refuse(self, execution: Execution) -> None:
        known = sorted({name for station in self._stations for name in station.pool.types})
        error = (
            f"no handler is registered for {execution.task_type}; this worker knows {', '.join(known[:10]) or 'none'}"
        )
        say(Event.TASK_FAILED, error, logging.WARNING, task_id=execution.id, task_type=execution.task_type)
        self._books.end(execution, FailureKind.NO_HANDLER, error, final=True)

    def _may_begin(self, execution: Execution) -> bool:
        if execution.over:
            return False
        if execution.end is End.CANCELLED:
            self._books.end_cancelled(execution)
            return False
        if not self._books.leases.may_begin(execution):
            self._books.forget(execution, "its lease ran out before a child was free")
            return False
        return True

    def _give(self, station: Station, child: Child, execution: Execution) -> bool:
        """Answers whether the child has got it, or it needs none any more."""
        pool = station.pool
        if not self._may_begin(execution):
            if not child.lines:
                pool.release(child)
            return True
        if execution.timeout_s is None:
            execution.timeout_s = (pool.types.get(execution.task_type) or {}).get("timeout")
        orders = self._system_orders if pool.kind.is_system else self._app_orders
        if not pool.hand(child, execution, orders.run(execution)):
            station.ready.appendleft(execution)
            return False
        execution.child_key = child.key
        if len(child.lines) == 1:
            self.begins(child, execution)
        return True

    def begins(self, child: Child, execution: Execution) -> None:
        execution.begun = True
        execution.handed_at = time.monotonic()
        if execution.timeout_s is not None:
            self.watch_time(child, execution)
