"""Why and how the runner ends a child in the middle of a task: time-out, cancel, lost lease."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from functools import partial

from reproq.executor.members import Child
from reproq.executor.order import Orders
from reproq.log import Event, say
from reproq.models.execution import End, Execution
from reproq.runner.keeper import Keeper
from reproq.runner.leases import Leases
from reproq.runner.loop import Loop

_LOST_GRACE_S = 0.5


class Stops:
    def __init__(
        self,
        loop: Loop,
        keeper: Keeper,
        leases: Leases,
        kill_grace_s: float,
        child_of: Callable[[Execution], Child | None],
        take_back: Callable[[Child], list[Execution]],
    ) -> None:
        self._loop = loop
        self._keeper = keeper
        self._leases = leases
        self._grace_s = kill_grace_s
        self._child_of = child_of
        self._take_back = take_back
        self.lost_count = 0

    def watch(self, child: Child, execution: Execution) -> None:
        """Its time-out counts from the moment it was handed out. One timer a child, however many tasks it runs."""
        if execution.timeout_s is not None:
            due = execution.handed_at + execution.timeout_s
            if child.alarm is None or child.alarm.at > due:
                child.alarm = self._loop.at(due, partial(self._rings, child))

    def cancelled(self, execution: Execution) -> None:
        """The database says that somebody cancelled it: ask the task, then TERM, then KILL."""
        if execution.over or execution.end is not None or not self._leases.holds(execution):
            return
        execution.end = End.CANCELLED
        say(Event.TASK_CANCELLED, f"task {execution.id} is cancelled", task_id=execution.id)
        child = self._alone(execution)
        if child is not None:  # else it waits for a child, and ends when its turn comes
            child.pool.tell(child, Orders.cancel(execution))
            self._kill(child, execution, self._grace_s, self._grace_s)

    def lost(self, execution: Execution) -> None:
        """Somebody else may run it: stop ours, and say nothing about it to the database."""
        if execution.over or not self._leases.holds(execution):
            return
        execution.end = End.LOST
        self.lost_count += 1
        self._leases.drop(execution)
        say(
            Event.LEASE_LOST,
            f"the lease of task {execution.id} is lost",
            logging.WARNING,
            task_id=execution.id,
            claim_no=execution.claim_no,
        )
        child = self._alone(execution)
        if child is None:
            execution.over = True
        else:
            self._kill(child, execution, 0, _LOST_GRACE_S)

    def _alone(self, execution: Execution) -> Child | None:
        """Its child, with nothing waiting behind it; None: no child has begun it, or it has ended."""
        child = self._child_of(execution)
        if child is None or execution in self._take_back(child):
            return None
        child.pool.hear(child)
        return child if execution in child.lines else None

    def _rings(self, child: Child) -> None:
        child.alarm = None
        execution = child.execution
        if execution is None or execution.timeout_s is None:
            return
        if time.monotonic() < execution.handed_at + execution.timeout_s:
            self.watch(child, execution)
        elif execution.end is None and not execution.over:
            self._time_out(child, execution)

    def _time_out(self, child: Child, execution: Execution) -> None:
        alone = self._alone(execution) is not None
        if not alone and execution.child_key is not None:
            return
        if not alone or not child.pool.has_begun(child):  # it has been taken back, or will be when the child has ended
            self.is_stuck(child)
            return
        execution.end = End.TIMED_OUT
        say(
            Event.TASK_TIMED_OUT,
            f"task {execution.id} ran longer than {execution.timeout_s:g} s",
            logging.WARNING,
            task_id=execution.id,
            task_type=execution.task_type,
        )
        child.retiring = True
        self._keeper.kill(child, signal.SIGKILL)

    def is_stuck(self, child: Child) -> None:
        """It had nothing to do, as far as we know, and didn't take its task in all that time."""
        say(Event.CHILD_RECYCLED, f"child {child.key} takes no task; another takes its place", child=child.key)
        child.pool.retire(child)
        self._keeper.kill(child, signal.SIGKILL)

    def _kill(self, child: Child, execution: Execution, before_term_s: float, grace_s: float) -> None:
        child.retiring = True
        self._loop.after(before_term_s, partial(self._send, child, execution, signal.SIGTERM))
        self._loop.after(before_term_s + grace_s, partial(self._send, child, execution, signal.SIGKILL))

    def _send(self, child: Child, execution: Execution, number: signal.Signals) -> None:
        """A timer may ring when its child is long gone, or has answered and begun the next task."""
        if child.execution is execution:
            child.pool.hear(child)
        if child.execution is execution:
            self._keeper.kill(child, number)
