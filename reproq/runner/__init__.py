"""The brain of a worker: claim, hand out, collect, finish; heartbeat; drain."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reproq.config import Settings


def run(settings: Settings) -> int:
    """Works until told to stop; answers the exit status."""
    from reproq.config import SettingsError
    from reproq.runner.crew import kinds
    from reproq.runner.runner import Runner

    if not kinds(settings):
        raise SettingsError(
            "this worker would have nothing to run: no --app, no command, and the built-in types are switched off or "
            "outside of its prefixes; name your tasks with --app MODULE"
        )
    return Runner(settings).run()
