"""`python -m bench`: what `reproq bench` measures, and other task queues on the same server and machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from bench import picture
from bench.environments import Environments
from bench.peers import steps
from bench.peers.bed import Bed
from bench.redis import RedisServer
from reproq.bench.lab import Lab
from reproq.bench.progress import View
from reproq.bench.session import STEPS
from reproq.cli.bench import measure, options
from reproq.cli.run import run

HERE = Path(__file__).parent


@click.command("bench")
@options
@click.option("--peers/--no-peers", default=True, help="Other task queues too, each in an environment of its own.")
def command(peers: bool, **flags: Any) -> int:
    """Floors, Reproq and other task queues on one machine, in one run.

    \b
    python -m bench                       what `make bench` runs: at most 15 minutes
    python -m bench --full                what `make bench-full` runs; goes on where it was interrupted
    python -m bench --only peer --only no-op --scale 0.2
    """
    environments = Environments(HERE / ".envs")

    @contextmanager
    def prepare(lab: Lab, view: View) -> Iterator[None]:
        with ExitStack() as stack:
            redis = stack.enter_context(RedisServer(environments, view.say))
            steps.place(Bed(lab, environments, redis, HERE / "peers" / "adapters"))
            yield

    def plot(raw: Path, view: View) -> None:
        picture.draw(environments, raw, view)

    more = {"prepare": prepare} if peers else {}
    chosen = (*STEPS, *steps.STEPS) if peers else STEPS
    return measure(flags, chosen, HERE / "results", plot=plot, **more)


if __name__ == "__main__":
    run(command, "python -m bench")
