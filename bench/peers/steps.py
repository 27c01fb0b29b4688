"""The peers' steps of a session."""

from __future__ import annotations

from collections.abc import Callable

from bench.peers import runs
from bench.peers.bed import Bed
from bench.peers.known import PEERS, Peer
from reproq.bench.figures import Figure, LeftOut, Step, Values
from reproq.bench.lab import Lab
from reproq.bench.sampler import cores

_bed: Bed | None = None


def place(bed: Bed) -> None:
    """Where this session's peers run."""
    global _bed
    _bed = bed


def _here() -> Bed:
    if _bed is None:
        raise LeftOut("no place for peers was made")
    return _bed


def _noop(peer: Peer) -> Step:
    key = f"peer.{peer.key}.noop"

    def run(_lab: Lab) -> Values:
        values = runs.throughput(_here(), peer, "noop", peer.concurrency, peer.rate)
        detail = values["detail"]
        about = {"key": key, "title": peer.title, "version": values["version"], "isolation": peer.isolation}
        about |= {"crash": peer.crash, "factor": peer.factor}
        cost = detail.get("worker µs", 0) + detail.get("server µs", 0)
        return {**values, f"{key}.cpu": cost, f"{key}.mb": detail.get("worker MB", 0), "peer": about}

    return Step(f"peer: no-op, {peer.title}", "Peers", run, [Figure(key, peer.title)], 14, full=peer.full, peer=True)


def _kind(peer: Peer, kind: str, title: str, concurrency: int, ideal: float) -> Step:
    key = f"peer.{peer.key}.{kind}"

    def run(_lab: Lab) -> Values:
        return runs.throughput(_here(), peer, kind, concurrency, ideal)

    figure = Figure(key, peer.title, ideal=ideal, against_title="ideal")
    return Step(f"peer: {title}, {peer.title}", f"Peers: {title}", run, [figure], 12, full=True)


def _more(
    peer: Peer, name: str, title: str, run: Callable[[Bed, Peer], Values], figures: dict[str, str], unit: str
) -> Step:
    rows = [Figure(f"peer.{peer.key}.{name}.{end}", f"{peer.title}: {text}", unit) for end, text in figures.items()]
    return Step(f"peer: {name}, {peer.title}", title, lambda _lab: run(_here(), peer), rows, 30, repeats=1, full=True)


_LATENCY = {"50": "enqueue → first line, p50", "99": "p99"}
_CRASH = {
    "runs": "runs of the job that kills its process",
    "siblings": "of 3 siblings that finished",
    "later": "of 5 later jobs that ran",
    "restarts": "restarts of the worker",
}
_PLAIN = [peer for peer in PEERS if peer.plain]

STEPS: tuple[Step, ...] = (
    *map(_noop, PEERS),
    *(_kind(peer, "cpu5ms", "5 ms of CPU, 2 at a time", 2, min(2, cores()) / 0.005) for peer in _PLAIN),
    *(_kind(peer, "sleep20ms", "20 ms of sleep, 8 at a time", 8, 8 / 0.02) for peer in _PLAIN),
    *(_more(peer, "latency", "Peers: latency of an idle worker", runs.latency, _LATENCY, "ms") for peer in _PLAIN),
    *(_more(peer, "crash", "Peers: a job kills its process, 45 s watched", runs.crash, _CRASH, "") for peer in _PLAIN),
)
