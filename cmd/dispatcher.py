"""`python -m cmd.dispatcher`."""

import os
import signal
from typing import NoReturn

from reproq import signals


def main() -> NoReturn:
    # The imports take a moment: whoever is asked to end meanwhile has claimed nothing, and ends in order.
    for number in signals.stopping():
        signal.signal(number, lambda *_: os._exit(0))
    from reproq.cli import dispatch

    dispatch.main()


if __name__ == "__main__":
    main()
