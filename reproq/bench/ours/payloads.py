"""Rate and memory by size of payload."""

from __future__ import annotations

from reproq.bench.drain import Plan, drain
from reproq.bench.figures import Figure, Step, Values
from reproq.bench.lab import Lab
from reproq.bench.ours.throughput import NOOP_FLAGS

_SIZES = {"1 KB": (1_000, 20_000.0), "100 KB": (100_000, 2_000.0), "1 MB": (1_000_000, 60.0)}
_CHUNK_BYTES = 20_000_000


def _step(name: str) -> Step:
    size, guess = _SIZES[name]
    key = f"payload.{size}"

    def measure(lab: Lab) -> Values:
        with lab.database("payload") as database:
            tasks = lab.size(key, guess, 4, 20)
            last = database.enqueue(tasks, payload={"pad": "x" * size}, chunk=min(10_000, max(1, _CHUNK_BYTES // size)))
            database.settle()
            done = drain(lab, database, Plan(last, lab.seconds(30), NOOP_FLAGS))
        lab.rates[key] = done.rate
        parts = {part: done.details.get(f"each_{part} MB") for part in ("runner", "child")}
        memory = {f"{key}.{part}": value for part, value in parts.items() if value}
        return {key: done.rate, **memory, "detail": done.details}

    figures = [
        Figure(key, f"no-op with {name} of payload", "/s", "ours.noop"),
        Figure(f"{key}.runner", f"{name}: largest runner", "MB"),
        Figure(f"{key}.child", f"{name}: largest child", "MB"),
    ]
    return Step(f"ours: payloads of {name}", "Ours: payloads", measure, figures, 15, full=True)


STEPS = tuple(map(_step, _SIZES))
