"""Commands. Nothing is imported here but when a command runs: the demo's tasks live in this package too, and a child
that imports them should start fast."""

from __future__ import annotations


def main() -> None:
    """The console script `reproq`."""
    from reproq.cli.commands import reproq
    from reproq.cli.run import run

    run(reproq, "reproq")
