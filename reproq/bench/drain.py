"""One run of the real worker over tasks that wait: how fast, at whose cost.

Nothing counts rows while it runs: the rate comes afterwards from what the rows themselves say (from the first claim
to the last task's end), and the end is seen by asking for one row by its key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from reproq.bench import worker as workers
from reproq.bench.figures import LeftOut, Values
from reproq.bench.lab import Database, Lab
from reproq.bench.sampler import Parts, Sampler, foreign_cores
from reproq.bench.worker import Worker

PATIENCE_S = 60.0
_ASK_EVERY_S = 0.1
_COUNT_EVERY_S = 1.0
_FEED_EVERY_S = 0.005


@dataclass(frozen=True)
class Plan:
    last_id: int
    limit_s: float  # it is stopped then, finished or not
    flags: Sequence[str] = ()
    app: str = workers.APP
    workers: int = 1
    meanwhile: Callable[[], object] | None = None  # called between two looks


@dataclass(frozen=True)
class Run:
    done: int
    started: float
    ended: float
    details: Values

    @property
    def rate(self) -> float:
        return self.done / max(1e-6, self.ended - self.started)


def drain(lab: Lab, database: Database, plan: Plan) -> Run:
    with ExitStack() as stack:
        crew = [
            stack.enter_context(workers.started(database.worker_dsn, lab.log(database.name), plan.flags, plan.app))
            for _ in range(plan.workers)
        ]
        sampler = stack.enter_context(Sampler(lambda: {**_together(crew), **lab.server_parts()}))
        _wait(database, plan, crew)
        cut = database.now()
        sampler.stop()
    return _judge(lab, database, sampler, cut, crew)


def _together(crew: Sequence[Worker]) -> Parts:
    found: Parts = {}
    for worker in crew:
        for part, pids in worker.parts().items():
            found.setdefault(part, []).extend(pids)
    return found


def _wait(database: Database, plan: Plan, crew: Sequence[Worker]) -> None:
    """Until nothing is left, or its time is over, which starts with the first worker that is ready.

    What is left is counted once a second: where the last task isn't the last to end, that costs more than the tasks.
    """
    ready, hopeless, counted = None, time.monotonic() + PATIENCE_S, 0.0
    while ready is None or time.monotonic() < ready + plan.limit_s:
        for worker in crew:
            worker.check()
        if ready is None and any(worker.events("worker_started") for worker in crew):
            ready = time.monotonic()
        if ready is None and time.monotonic() > hopeless:
            raise LeftOut(f"the worker wasn't ready after {PATIENCE_S:g} s: {crew[0].last_line()}")
        if time.monotonic() > counted + _COUNT_EVERY_S and database.one("last_is_over", plan.last_id):
            counted = time.monotonic()
            if not database.one("unfinished", plan.last_id):
                return
        if plan.meanwhile:
            plan.meanwhile()
        time.sleep(_FEED_EVERY_S if plan.meanwhile else _ASK_EVERY_S)


def _judge(lab: Lab, database: Database, sampler: Sampler, cut: float, crew: Sequence[Worker]) -> Run:
    done, started, ended, odd, mistimed = database.ask("run_summary", cut)[0]
    if not done or started is None:
        raise LeftOut(f"no task was finished: {crew[0].last_line()}")
    details: Values = {"tasks": done, "odd": odd, "mistimed": mistimed, "seconds": round(ended - started, 3)}
    details |= {f"{name} MB": round(value, 1) for name, value in sampler.peak_mb().items() if value}
    details |= _costs(lab, database, sampler, started, ended)
    return Run(done, started, ended, details)


def _costs(lab: Lab, database: Database, sampler: Sampler, started: float, ended: float) -> Values:
    """CPU microseconds a task, over the time between two looks in which the worker was at it."""
    looks = sampler.between(started - lab.clock_s, ended - lab.clock_s)
    if looks is None:
        return {}
    first, last = looks
    tasks = database.one("completed_between", first.at + lab.clock_s, last.at + lab.clock_s)
    if not tasks:
        return {}
    costs: dict[str, Any] = {
        f"{part} µs": round((last.cpu[part] - first.cpu[part]) / tasks * 1e6, 2)
        for part in last.cpu
        if part in first.cpu
    }
    return costs | {"foreign cores": round(foreign_cores(first, last), 2)}


def windows(database: Database, started: float, length_s: float) -> list[float]:
    """The rate in each whole window of a run; the last one isn't whole."""
    pieces = {int(piece): count / length_s for piece, count in database.ask("per_window", started, length_s)}
    return [pieces.get(number, 0.0) for number in range(max(pieces, default=0))]
