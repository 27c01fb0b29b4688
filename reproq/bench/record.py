"""The raw file of a session: a JSON line for what it ran on, one for each run. What is there isn't run again."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from reproq.bench.figures import Results, Series, Values

FRESH_S = 24 * 3600.0


class Record:
    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self.path = path
        self.facts = facts
        self.runs: list[dict[str, Any]] = []

    @classmethod
    def open(cls, path: Path, facts: dict[str, Any], *, resume: bool) -> Record:
        """Take up an unfinished session of the same code, machine and server, not a day old, or start a new one."""
        found = read(path) if resume and path.exists() else None
        if found and _same(found.facts, facts) and time.time() - float(found.facts["at"]) < FRESH_S:
            return found
        path.parent.mkdir(parents=True, exist_ok=True)
        record = cls(path, facts)
        path.write_text(json.dumps({"facts": facts}) + "\n", "utf-8")
        return record

    @property
    def done(self) -> Counter[str]:
        """Step -> how often it was run or tried."""
        return Counter(run["step"] for run in self.runs)

    def add(self, step: str, values: Values, seconds: float) -> None:
        self._write({"step": step, "at": time.time(), "seconds": round(seconds, 2), "values": values})

    def leave_out(self, step: str, reason: str) -> None:
        self._write({"step": step, "at": time.time(), "left_out": reason})

    def results(self) -> Results:
        series: dict[str, tuple[float, ...]] = {}
        for run in self.runs:
            for key, value in run.get("values", {}).items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    series[key] = (*series.get(key, ()), float(value))
        left_out = {run["step"]: run["left_out"] for run in self.runs if "left_out" in run}
        return Results({key: Series(values) for key, values in series.items()}, left_out)

    def finish(self, name: str) -> Path:
        """Under a name that no later session writes to."""
        path = self.path.with_name(f"{name}.jsonl")
        self.path.replace(path)
        self.path = path
        return path

    def _write(self, run: dict[str, Any]) -> None:
        self.runs.append(run)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")
            file.flush()
            os.fsync(file.fileno())


def read(path: Path) -> Record | None:
    """None: there is no whole session in the file. A last line that a crash cut off is forgotten."""
    lines = []
    for line in path.read_text("utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    if not lines or "facts" not in lines[0]:
        return None
    record = Record(path, lines[0]["facts"])
    record.runs = lines[1:]
    return record


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(a.get(key) == b.get(key) for key in ("reproq", "commit", "machine", "server", "scale"))
