"""A worker's metrics at the moment somebody asks. Runs on the probe's thread while the loop goes on: it only reads, and
takes a copy of what may grow meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from reproq import __version__
from reproq.metrics import Family, Histogram, Labels, counter, gauge, histogram
from reproq.runner.crew import Station
from reproq.runner.measures import Measures
from reproq.runner.meter import Ends, Meter

if TYPE_CHECKING:
    from reproq.executor.members import Child
    from reproq.runner.runner import Runner

_STATES = ("starting", "idle", "busy", "retiring")


class Scrape:
    def __init__(self, runner: Runner, meter: Meter, measures: Measures) -> None:
        self._runner = runner
        self._meter = meter
        self._measures = measures

    def families(self) -> list[Family]:
        runner = self._runner
        return [
            *_worker(runner),
            *_claims(runner),
            *_tasks(self._meter),
            *_fences(runner),
            *_children(runner),
            *_connections(runner),
            *_process(),
            *self._measures.families(),
        ]


def _worker(runner: Runner) -> list[Family]:
    health = runner.health
    return [
        gauge("reproq_build_info", "Always 1; the version is a label.", [({"version": __version__}, 1)]),
        _one(
            "reproq_worker_ready",
            "Whether this worker can run tasks, and is not ending.",
            health.ready,
        ),
        _one("reproq_worker_draining", "Whether this worker is ending.", health.draining),
        _one("reproq_worker_leading", "Whether this worker keeps house for all.", runner.house.leads),
        _one("reproq_loop_age_seconds", "Time since the loop of the worker last turned.", health.silent_s),
        _one(
            "reproq_heartbeat_age_seconds",
            "Time since the last accepted heartbeat.",
            _age(runner.heart.last_beat),
        ),
    ]


def _claims(runner: Runner) -> list[Family]:
    claims, stations = runner.claims, runner.stations
    waiting = [({"pool": station.name}, station.waiting) for station in stations]
    return [
        counter("reproq_claims", "Claims that were answered, by whether they brought tasks.", [
            ({"result": "tasks"}, claims.asked - claims.empty), ({"result": "empty"}, claims.empty)]),
        _total("reproq_tasks_claimed", "Tasks that claims brought.", claims.claimed),
        _total("reproq_tasks_given_back", "Claimed tasks that went back without an outcome.", runner.books.given_back),
        _one("reproq_leases_held", "Tasks that this worker holds now.", len(runner.leases)),
        gauge("reproq_tasks_waiting", "Claimed tasks that no child has got yet.", waiting),
        _one("reproq_outcomes_pending", "Outcomes that the database has not got yet.", runner.books.finishes.pending),
    ]  # fmt: skip


def _tasks(meter: Meter) -> list[Family]:
    ends = list(meter.types.items())
    waits = [({"queue": name}, wait) for name, wait in list(meter.waits.items())]
    outcomes = [
        ({"task_type": name, "outcome": kind}, count)
        for name, one in ends
        for kind, count in list(one.outcomes.items())
    ]
    return [
        counter("reproq_outcomes", "Executions that ended; a task that is retried has several.", outcomes),
        histogram("reproq_run_seconds", "From the hand-out of a task to its answer.", _typed(ends)),
        histogram("reproq_queue_wait_seconds", "From when a task was due to its hand-out.", waits),
    ]


def _fences(runner: Runner) -> list[Family]:
    books = runner.books
    return [
        _total(
            "reproq_leases_lost", "Tasks that were no longer ours while we had them.", runner.floor.stops.lost_count
        ),
        _total(
            "reproq_stale_writes_refused",
            "Outcomes that the database refused as stale.",
            books.finishes.stale,
        ),
        _total("reproq_outcomes_dropped", "Outcomes that went nowhere: the lease was lost.", books.dropped),
        _total("reproq_finishes_repeated", "Outcomes that the database had got before.", books.finishes.repeated),
    ]


def _children(runner: Runner) -> list[Family]:
    stations = runner.stations
    ends = [
        ({"pool": station.name, "cause": cause}, count)
        for station in stations
        for cause, count in list(station.ends.items())
    ]
    return [
        gauge("reproq_children", "Child processes, by pool and what they do.", _by_state(stations)),
        gauge("reproq_children_wanted", "Child processes that a pool should have.", [
            ({"pool": station.name}, station.pool.kind.size) for station in stations]),
        counter("reproq_child_starts", "Child processes that were started.", [
            ({"pool": station.name}, station.pool.started_count) for station in stations]),
        counter("reproq_child_ends", "Child processes that ended, by cause.", ends),
        _total("reproq_guard_restarts", "Times that the guard ended with all children.", runner.keeper.restarts),
    ]  # fmt: skip


def _by_state(stations: Iterable[Station]) -> list[tuple[Labels, float]]:
    found: list[tuple[Labels, float]] = []
    for station in stations:
        states = [_state(child) for child in list(station.members)]
        found += [({"pool": station.name, "state": state}, states.count(state)) for state in _STATES]
    return found


def _state(child: Child) -> str:
    if not child.ready:
        return "starting"
    if child.lines:
        return "busy"
    return "retiring" if child.retiring else "idle"


def _connections(runner: Runner) -> list[Family]:
    desks = (runner.claim_desk, runner.finish_desk)
    again = [({"line": desk.name}, desk.reconnects) for desk in desks]
    return [
        counter("reproq_reconnects", "Times that a lost connection to the database came back.", [
            *again, ({"line": "heartbeat"}, max(0, runner.heart.reconnects))]),
        gauge("reproq_connected", "Whether a line to the database stands.", [
            ({"line": desk.name}, int(desk.connected)) for desk in desks]),
    ]  # fmt: skip


def _process() -> list[Family]:
    """Of the runner alone, by the names that every dashboard knows."""
    times = os.times()
    return [
        _total("process_cpu_seconds", "CPU time of the worker's own process.", times.user + times.system),
        _one("process_resident_memory_bytes", "Memory of the worker's own process.", _resident_bytes()),
        _one("process_open_fds", "Open descriptors of the worker's own process.", len(os.listdir("/proc/self/fd"))),
    ]


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _typed(ends: Iterable[tuple[str, Ends]]) -> list[tuple[Labels, Histogram]]:
    return [({"task_type": name}, one.run) for name, one in ends]


def _age(since: float) -> float:
    return time.monotonic() - since


def _one(name: str, help_: str, value: float) -> Family:
    return gauge(name, help_, [({}, value if not isinstance(value, bool) else int(value))])


def _total(name: str, help_: str, value: float) -> Family:
    return counter(name, help_, [({}, value)])
