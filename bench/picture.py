"""The plot, drawn in an environment that has matplotlib, so that neither users nor developers need it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bench.environments import Environments
from reproq.bench.figures import LeftOut
from reproq.bench.progress import View

_REQUIREMENTS = ("matplotlib>=3.9",)
_ROOT = Path(__file__).resolve().parents[1]


def draw(environments: Environments, raw: Path, view: View) -> None:
    try:
        python = environments.python("picture", _REQUIREMENTS)
    except LeftOut as problem:
        view.say(f"no picture: {problem}")
        return
    command = [str(python), "-m", "reproq.bench.plot", str(raw), str(raw.with_suffix(".png"))]
    environ = {**os.environ, "PYTHONPATH": str(_ROOT), "MPLCONFIGDIR": str(environments.folder / "picture")}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environ)
    if done.returncode:
        view.say(f"no picture: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
