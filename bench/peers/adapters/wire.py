"""An adapter answers lines of JSON from the bench: {"do": "enqueue", "kind": "noop", "n": 1000} -> {"answer": 0.1}.

It runs in its peer's environment, with this folder on its path and nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent


def serve(peer: Any) -> None:
    """What libraries print goes to stderr: stdout is for answers."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"answer": getattr(peer, order.pop("do"))(**order)}
        except Exception as problem:  # noqa: BLE001 - the bench prints it as the reason
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        answers.write(json.dumps(answer) + "\n")


def chunks(n: int, size: int = 1000) -> list[range]:
    return [range(start, min(n, start + size)) for start in range(0, n, size)]


class Stopwatch:
    def __init__(self) -> None:
        self._began = time.perf_counter()

    def seconds(self) -> float:
        return time.perf_counter() - self._began
