"""The brain of a worker: claim, hand out, collect, finish; heartbeat; drain."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reproq.config import Settings


def run(settings: Settings) -> int:
    """Works until told to stop; answers the exit status."""
    from reproq.runner.runner import Runner

    return Runner(settings).run()
