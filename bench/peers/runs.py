"""What is done with a peer: throughput of a kind of job, latency, a job that kills its own process."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from bench.peers.bed import Bed, Guest, listener
from bench.peers.known import Peer
from reproq.bench.figures import LeftOut, Values
from reproq.bench.ours.latency import percentile
from reproq.bench.sampler import Sampler, foreign_cores

RUN_S = 4.0
Events = list[tuple[str, int, float]]


def throughput(bed: Bed, peer: Peer, kind: str, concurrency: int, guess: float) -> Values:
    lab, key = bed.lab, f"peer.{peer.key}.{kind}"
    jobs = lab.size(key, guess, RUN_S)
    with bed.peer(peer, concurrency) as guest:
        version = guest.ask("version")
        enqueued_s = guest.ask("enqueue", kind=kind, n=jobs)
        guest.settle()
        left = guest.ask("remaining")
        if left != jobs:
            raise LeftOut(f"{left} of {jobs} jobs were in its queue before the start")
        with Sampler(guest.parts) as sampler:
            guest.start()
            began = guest.first_start()
            ended, done = _watch(guest, jobs, began, lab.seconds(RUN_S) * 2.5 + 1)
            sampler.stop()
    rate = done / max(1e-6, ended - began)
    lab.rates[key] = rate
    detail: Values = {
        "jobs": done,
        "of": jobs,
        "seconds": round(ended - began, 3),
        "enqueued per s": round(jobs / enqueued_s),
    }
    return {key: rate, "version": version, "detail": {**detail, **_costs(sampler, began, ended, done)}}


def _watch(guest: Guest, jobs: int, began: float, limit_s: float) -> tuple[float, int]:
    """When nothing was left, or the time was over, and how many were done; looks more often towards the end."""
    while True:
        before, left = time.time(), guest.ask("remaining")
        now, done = (before + time.time()) / 2, jobs - left
        if not left or now - began > limit_s:
            return now, done
        rate = max(1, done) / max(now - began, 0.001)
        time.sleep(min(0.25, max(0.01, left / rate / 10)))


def _costs(sampler: Sampler, began: float, ended: float, done: int) -> Values:
    memory = {f"{part} MB": round(value) for part, value in sampler.peak_mb().items()}
    looks = sampler.between(began - 0.3, ended + 0.5)
    if looks is None:
        return memory
    first, last = looks
    cpu = {f"{part} µs": round((last.cpu[part] - first.cpu.get(part, 0)) / max(1, done) * 1e6, 1) for part in last.cpu}
    return {**memory, **cpu, "foreign cores": round(foreign_cores(first, last), 2)}


def latency(bed: Bed, peer: Peer) -> Values:
    """One job at a time, 5 ms after the last one ended: from the return of the enqueue to the job's first line."""
    with listener() as ear:
        ear.settimeout(30)
        with bed.peer(peer, 2, udp=ear.getsockname()[1]) as guest:
            guest.start()
            taken = [_one(guest, ear, number) for number in range(10 + bed.lab.count(200, 20))][10:]
    key = f"peer.{peer.key}.latency"
    return {f"{key}.{q}": percentile(taken, q) for q in (50, 99)}


def _one(guest: Guest, ear: socket.socket, number: int) -> float:
    committed = guest.ask("put", kind="noop", n=number)
    while True:
        try:
            what, n, at = ear.recv(200).decode().split()
        except TimeoutError:
            raise LeftOut(f"a job didn't begin within 30 s: {guest.last_line()}") from None
        if what == "start" and int(n) == number:
            break
    until = time.monotonic() + 10
    while guest.ask("remaining") and time.monotonic() < until:
        time.sleep(0.002)
    time.sleep(0.005)
    return (float(at) - float(committed)) * 1000


def crash(bed: Bed, peer: Peer) -> Values:
    """Three siblings of 2 s run, a fourth job kills its process, five more come; an ended worker is started again."""
    events: Events = []
    with listener() as ear:
        ear.settimeout(0.25)
        with bed.peer(peer, 4, udp=ear.getsockname()[1]) as guest:
            guest.start()
            _put(guest, "sleep2s", (11, 12, 13, 14))  # every process of a pool exists
            _pump(ear, events, guest, 40, lambda: _count(events, "end", 11, 14) == 4)
            _put(guest, "sleep2s", (1, 2, 3))
            _pump(ear, events, guest, 15, lambda: _count(events, "start", 1, 3) >= 3)
            _put(guest, "kill9", (100,))
            _pump(ear, events, guest, 20, lambda: _count(events, "start", 100, 100) > 0)
            _put(guest, "noop", range(201, 206))
            restarts = _pump(ear, events, guest, bed.lab.seconds(45, 6), lambda: False)
    key = f"peer.{peer.key}.crash"
    return {
        f"{key}.runs": _count(events, "start", 100, 100),
        f"{key}.siblings": len({n for what, n, _ in events if what == "end" and 1 <= n <= 3}),
        f"{key}.later": len({n for what, n, _ in events if what == "end" and n > 200}),
        f"{key}.restarts": restarts,
    }


def _put(guest: Guest, kind: str, numbers: tuple[int, ...] | range) -> None:
    for number in numbers:
        guest.ask("put", kind=kind, n=number)


def _pump(ear: socket.socket, events: Events, guest: Guest, seconds: float, over: Callable[[], bool]) -> int:
    """Hear what jobs say; answers how often a worker had to be started again."""
    until, restarts = time.monotonic() + seconds, 0
    while time.monotonic() < until and not over():
        try:
            what, n, at = ear.recv(200).decode().split()
            events.append((what, int(n), float(at)))
        except TimeoutError:
            pass
        if any(process.poll() is not None for process in guest.workers):
            time.sleep(1)
            restarts += guest.restart_dead()
    return restarts


def _count(events: Events, what: str, low: int, high: int) -> int:
    return sum(1 for event, n, _at in events if event == what and low <= n <= high)
